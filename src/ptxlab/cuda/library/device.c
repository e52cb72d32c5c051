/* Devices: what the core's descriptions say. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

bool is_device(CUdevice device) { return device >= 0 && device < (int)driver.core.devices; }

const DeviceDescription *device_of(CUdevice device) { return &driver.core.descriptions[device]; }

enum { PCI_BUS = 33, PCI_DEVICE = 34, PCI_DOMAIN = 50, MAJOR = 75, MINOR = 76, LAST_ATTRIBUTE = 161 };

CUresult ptxlab_cuDeviceGetCount(int *count)
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = (int)driver.core.devices;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuDeviceGet(CUdevice *device, int ordinal)
{
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuDeviceGetName(char *name, int length, CUdevice device)
{
    if (!name || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "%s", device_of(device)->name);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, device_of(device)->uuid, sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { return ptxlab_cuDeviceGetUuid(uuid, device); }

/* Locally unique identifiers exist on Windows only. */
CUresult ptxlab_cuDeviceGetLuid(char *luid, unsigned int *mask, CUdevice device)
{
    (void)luid, (void)mask, (void)device;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ptxlab_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = device_of(device)->total_bytes;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    if (!value || attribute < 1 || attribute > LAST_ATTRIBUTE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *value = device_of(device)->attributes[attribute];
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = ptxlab_cuDeviceGetAttribute(major, MAJOR, device);
    return refused ? refused : ptxlab_cuDeviceGetAttribute(minor, MINOR, device);
}

CUresult ptxlab_cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    if (!text || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    const int32_t *attributes = device_of(device)->attributes;
    char made[40];
    int size = snprintf(made, sizeof made, "%04X:%02X:%02X.0", (unsigned)attributes[PCI_DOMAIN], (unsigned)attributes[PCI_BUS],
                        (unsigned)attributes[PCI_DEVICE]);
    if (size >= length)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(text, made, (size_t)size + 1);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    unsigned domain = 0, bus, slot, function;
    if (!device || !text)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) {
        domain = 0;
        if (sscanf(text, "%x:%x.%x", &bus, &slot, &function) != 3)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (int i = 0; is_device(i); i++) {
        const int32_t *attributes = device_of(i)->attributes;
        if (attributes[PCI_DOMAIN] == (int)domain && attributes[PCI_BUS] == (int)bus && attributes[PCI_DEVICE] == (int)slot) {
            *device = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult ptxlab_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device) || !is_device(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice destination)
{
    enum { PERFORMANCE_RANK = 1, ACCESS_SUPPORTED, NATIVE_ATOMICS, ARRAYS_ACCESS };
    if (!value || attribute < PERFORMANCE_RANK || attribute > ARRAYS_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(source) || !is_device(destination) || source == destination)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute == ACCESS_SUPPORTED || attribute == NATIVE_ATOMICS;
    return CUDA_SUCCESS;
}
