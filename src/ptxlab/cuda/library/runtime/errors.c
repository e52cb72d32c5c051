/* Names and texts of the runtime's errors. */
#include "runtime.h"

static const struct {
    int code;
    const char *name, *text; /* no text: the driver has one under the same number */
} errors[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {3, "cudaErrorInitializationError", "initialization error"},
    {4, "cudaErrorCudartUnloading", "driver shutting down"},
    {5, "cudaErrorProfilerDisabled", 0},
    {9, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {12, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {13, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {16, "cudaErrorInvalidHostPointer", "invalid host pointer"},
    {17, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {18, "cudaErrorInvalidTexture", "invalid texture reference"},
    {20, "cudaErrorInvalidChannelDescriptor", "invalid channel descriptor"},
    {21, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {34, "cudaErrorStubLibrary", 0},
    {35, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"},
    {36, "cudaErrorCallRequiresNewerDriver", "API call is not supported in the installed CUDA driver"},
    {46, "cudaErrorDevicesUnavailable", 0},
    {49, "cudaErrorIncompatibleDriverContext", "incompatible driver context"},
    {52, "cudaErrorMissingConfiguration", "__global__ function call is not configured"},
    {53, "cudaErrorPriorLaunchFailure", "unspecified launch failure in prior launch"},
    {98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {101, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {127, "cudaErrorStartupFailure", "startup failure in cuda runtime"},
    {200, "cudaErrorInvalidKernelImage", "device kernel image is invalid"},
    {201, "cudaErrorDeviceUninitialized", "invalid device context"},
    {209, "cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device"},
    {215, "cudaErrorUnsupportedLimit", 0},
    {217, "cudaErrorPeerAccessUnsupported", 0},
    {218, "cudaErrorInvalidPtx", "a PTX JIT compilation failed"},
    {221, "cudaErrorJitCompilerNotFound", 0},
    {222, "cudaErrorUnsupportedPtxVersion", 0},
    {300, "cudaErrorInvalidSource", "device kernel image is invalid"},
    {301, "cudaErrorFileNotFound", "file not found"},
    {304, "cudaErrorOperatingSystem", 0},
    {400, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {401, "cudaErrorIllegalState", 0},
    {500, "cudaErrorSymbolNotFound", "named symbol not found"},
    {600, "cudaErrorNotReady", "device not ready"},
    {700, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {701, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {702, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {704, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {705, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {708, "cudaErrorSetOnActiveProcess", 0},
    {709, "cudaErrorContextIsDestroyed", "context is destroyed"},
    {710, "cudaErrorAssert", "device-side assert triggered"},
    {712, "cudaErrorHostMemoryAlreadyRegistered", 0},
    {713, "cudaErrorHostMemoryNotRegistered", 0},
    {715, "cudaErrorIllegalInstruction", "an illegal instruction was encountered"},
    {716, "cudaErrorMisalignedAddress", "misaligned address"},
    {717, "cudaErrorInvalidAddressSpace", 0},
    {718, "cudaErrorInvalidPc", "invalid program counter"},
    {719, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {720, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {800, "cudaErrorNotPermitted", "operation not permitted"},
    {801, "cudaErrorNotSupported", "operation not supported"},
    {802, "cudaErrorSystemNotReady", 0},
    {803, "cudaErrorSystemDriverMismatch", 0},
    {900, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {901, "cudaErrorStreamCaptureInvalidated", 0},
    {902, "cudaErrorStreamCaptureMerge", 0},
    {903, "cudaErrorStreamCaptureUnmatched", 0},
    {904, "cudaErrorStreamCaptureUnjoined", 0},
    {905, "cudaErrorStreamCaptureIsolation", 0},
    {906, "cudaErrorStreamCaptureImplicit", 0},
    {907, "cudaErrorCapturedEvent", 0},
    {908, "cudaErrorStreamCaptureWrongThread", 0},
    {909, "cudaErrorTimeout", 0},
    {910, "cudaErrorGraphExecUpdateFailure", 0},
    {912, "cudaErrorInvalidClusterSize", "cluster misconfiguration"},
    {999, "cudaErrorUnknown", "unknown error"},
};

#define COUNT (sizeof errors / sizeof errors[0])

EXPORT const char *cudaGetErrorName(int code)
{
    for (size_t i = 0; i < COUNT; i++)
        if (errors[i].code == code)
            return errors[i].name;
    return "unrecognized error code";
}

EXPORT const char *cudaGetErrorString(int code)
{
    const char *text = 0;
    for (size_t i = 0; i < COUNT; i++)
        if (errors[i].code == code && errors[i].text)
            return errors[i].text;
    return cuGetErrorString(code, &text) || !text ? "unrecognized error code" : text;
}
