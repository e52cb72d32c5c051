/* Memory and events of other processes. */
#include "runtime.h"

EXPORT int cudaIpcGetMemHandle(CUipcMemHandle *handle, void *pointer) { return CALL(cuIpcGetMemHandle(handle, DEVICE_POINTER(pointer))); }
EXPORT int cudaIpcOpenMemHandle(void **pointer, CUipcMemHandle handle, unsigned flags)
{
    return CALL(cuIpcOpenMemHandle_v2(PAIR(pointer), handle, flags));
}
EXPORT int cudaIpcCloseMemHandle(void *pointer) { return CALL(cuIpcCloseMemHandle(DEVICE_POINTER(pointer))); }
EXPORT int cudaIpcGetEventHandle(CUipcEventHandle *handle, CUevent event) { return CALL(cuIpcGetEventHandle(handle, event)); }
EXPORT int cudaIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle) { return CALL(cuIpcOpenEventHandle(event, handle)); }
