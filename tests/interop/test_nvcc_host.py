"""Host code of CUDA C++: memory, launches, variables, tensor maps and refusals, through the real ABI of nvcc's output."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.interop import nvcc

pytestmark = pytest.mark.compiler
"""The library is made once."""

PROGRAM = """
#include <cstdio>
#include <cuda.h>
#include <cuda_runtime.h>

__global__ void add(const int *x, int *y, int n, int step) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + step;
}
__device__ int table[4] = {1, 2, 3, 4};
__global__ void look(int *y) { y[threadIdx.x] = table[threadIdx.x]; }
struct Pair { int low; double high; };
__global__ void spread(Pair pair, double *y) { y[threadIdx.x] = pair.low + pair.high * threadIdx.x; }
__global__ void ranks(int *y) {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  y[blockIdx.x] = rank;
}
__global__ void far(int *y) { y[1000] = 1; }

extern "C" {
int add_on_device(const int *x, int *y, int n, int step) {
  add<<<(n + 31) / 32, 32>>>(x, y, n, step);
  return cudaGetLastError();
}
int add_on_host(const int *x, int *y, int n, int step) {
  int *dx, *dy;
  if (cudaMalloc(&dx, 4 * n) || cudaMalloc(&dy, 4 * n)) return 100;
  cudaMemcpy(dx, x, 4 * n, cudaMemcpyHostToDevice);
  cudaMemset(dy, 0xFF, 4 * n);
  add<<<(n + 63) / 64, 64>>>(dx, dy, n - 1, step);
  cudaMemcpy(dx, dy, 4 * n, cudaMemcpyDeviceToDevice);
  cudaMemcpy(y, dx, 4 * n, cudaMemcpyDefault);
  cudaFree(dx);
  return cudaFree(dy) + cudaFree(dy);
}
int unwritten(int *y, int n, int set) {
  int *dx, *dy, *dz;
  if (cudaMalloc(&dx, 4 * n) || cudaMalloc(&dy, 4 * n) || cudaMalloc(&dz, 4 * n)) return 100;
  if (set) cudaMemset(dx, 0, 4 * n);
  add<<<1, 32>>>(dx, dy, n, 5);
  cudaMemcpy(dz, dy, 4 * n, cudaMemcpyDeviceToDevice);
  cudaMemcpy(y, dz, 4 * n, cudaMemcpyDeviceToHost);
  return cudaFree(dx) + cudaFree(dy) + cudaFree(dz);
}
int variables(int *y) {
  int nine = 9;
  cudaMemcpyToSymbol(table, &nine, 4, 8, cudaMemcpyHostToDevice);
  look<<<1, 4>>>(y);
  int back[4];
  cudaMemcpyFromSymbol(back, table, 16, 0, cudaMemcpyDeviceToHost);
  return back[0] * 1000 + back[1] * 100 + back[2] * 10 + back[3];
}
int structure(double *y) {
  spread<<<1, 8>>>({3, 0.5}, y);
  return 0;
}
int cluster(int *y) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {4, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = 8;
  config.blockDim = 32;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, ranks, y);
}
int attributes(int *found) {
  cudaDeviceGetAttribute(found, cudaDevAttrMultiProcessorCount, 0);
  cudaDeviceGetAttribute(found + 1, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(found + 2, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  found[3] = properties.multiProcessorCount;
  found[4] = properties.major * 10 + properties.minor;
  found[5] = cudaDeviceGetAttribute(found + 6, cudaDeviceAttr(9999), 0);
  return cudaSetDevice(1);
}
int tensor_map(void *out, void *base, int columns, int box) {
  void *encode = nullptr;
  cudaDriverEntryPointQueryResult result;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &result)) return 100;
  cuuint64_t dims[] = {cuuint64_t(columns), 32}, strides[] = {cuuint64_t(2 * columns)};
  cuuint32_t boxes[] = {cuuint32_t(box), 8}, steps[] = {1, 1};
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      static_cast<CUtensorMap *>(out), CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, base, dims, strides, boxes, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}
int wrong_access(int *y) {
  far<<<1, 1>>>(y);
  return cudaGetLastError();
}
int wrong_copy(int *y) { return cudaMemcpy(y, y, 1 << 20, cudaMemcpyDeviceToDevice); }
int sums(double a, const char *text, int *host, long long wide) { return int(a * 2) + text[0] + host[1] + (wide == -5000000000); }
}
"""


@pytest.fixture(scope="module")
def library() -> nvcc.Host:
    if shutil.which("g++") is None:
        pytest.skip("needs a host compiler")
    try:
        return nvcc.host("program.cu", text=PROGRAM)
    except nvcc.NvccError as error:
        if error.diagnostic.code == "I201":
            pytest.skip("needs nvcc")
        raise


@pytest.fixture
def host(library: nvcc.Host) -> nvcc.Host:
    library.device = ptxlab.Device("sm_100a", sms=12)
    library.launches.clear()
    library.options.clear()
    return library


def test_device_buffers(host: nvcc.Host) -> None:
    x = np.arange(100, dtype=np.int32)
    bx, by = host.device.array(x), host.device.array(np.zeros_like(x))
    assert host["add_on_device"](bx, by, 100, -7) == 0
    assert np.array_equal(by.numpy(), x - 7)
    (launch,) = host.launches
    assert (launch.grid, launch.block, launch.cluster, launch.shared_bytes) == ((4, 1, 1), (32, 1, 1), None, 0)
    assert launch.kernel == "_Z3addPKiPiii"
    assert launch.result.stats.ctas == 4
    assert [sorted(module) for module in host.modules] == [["_Z3addPKiPiii", "_Z3farPi", "_Z4lookPi", "_Z5ranksPi", "_Z6spread4PairPd"]]


def test_memory(host: nvcc.Host) -> None:
    x, y = np.arange(100, dtype=np.int32), np.zeros(100, np.int32)
    assert host["add_on_host"](x, y, 100, 5) == 1, "the second cudaFree of one pointer is refused"
    assert np.array_equal(y, np.append(x[:-1] + 5, -1))
    assert host.device.memory.used == 16, "what is left is the table of the module"
    (found,) = host.device.diagnostics
    assert (found.code, found.message.partition(" of ")[0]) == ("I504", "cuMemFree")


def test_memory_that_nothing_has_written(host: nvcc.Host) -> None:
    """A kernel copies what cudaMalloc gives, cudaMemcpy copies that again, and the host reads it."""
    y = np.zeros(8, np.int32)
    with pytest.warns(ptxlab.UndefinedValueWarning):
        assert host["unwritten"](y, 8, 0) == 0
    (found,) = host.device.diagnostics
    assert (found.code, found.message.partition(" ")[0]) == ("R808", "st.global.b32")
    assert dict(found.details)["origin"].startswith("cuMemAlloc #")
    assert dict(found.details)["origin"].endswith(", 32 bytes: nothing has written it")
    assert host["unwritten"](y, 8, 1) == 0
    assert len(host.device.diagnostics) == 1
    assert y.tolist() == [5] * 8


def test_variables(host: nvcc.Host) -> None:
    y = host.device.array(np.zeros(4, np.int32))
    assert host["variables"](y) == 1294
    assert list(y.numpy()) == [1, 2, 9, 4]


def test_struct_parameters(host: nvcc.Host) -> None:
    y = host.device.array(np.zeros(8))
    host["structure"](y)
    assert np.array_equal(y.numpy(), 3 + 0.5 * np.arange(8))


def test_clusters_and_launch_options(host: nvcc.Host) -> None:
    host.options = {"policy": "random", "seed": 3}
    y = host.device.array(np.zeros(8, np.int32))
    assert host["cluster"](y) == 0
    assert list(y.numpy()) == [0, 1, 2, 3] * 2
    assert host.launches[0].cluster == (4, 1, 1)


def test_the_device_is_described(host: nvcc.Host) -> None:
    found = np.zeros(7, np.int32)
    assert host["attributes"](found) == 101
    assert list(found) == [12, 10, 227 << 10, 12, 100, 1, 0]


def aligned_map() -> NDArray[np.uint8]:
    """Memory for a tensor map, as the driver wants it: at a multiple of 64 bytes."""
    raw = np.zeros(192, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + 128]


def test_tensor_maps_are_those_of_the_driver(host: nvcc.Host) -> None:
    base = host.device.array(np.zeros((32, 256), np.float16))
    raw = aligned_map()
    assert host["tensor_map"](raw, base, 256, 64) == 0
    assert raw.tobytes() == bytes(ptxlab.TensorMap(base, box=(64, 8), swizzle="128B", l2_promotion="128B"))


def test_a_refused_tensor_map_is_raised(host: nvcc.Host) -> None:
    """And the host code, which often ends the process where the driver refuses, is not told."""
    base = host.device.array(np.zeros((32, 256), np.float16))
    with pytest.raises(ptxlab.PtxlabError) as error:
        host["tensor_map"](aligned_map(), base, 256, 128)
    assert error.value.diagnostic.code == "D732"


def test_findings_are_raised(host: nvcc.Host) -> None:
    y = host.device.array(np.zeros(8, np.int32))
    with pytest.raises(ptxlab.KernelError) as error:
        host["wrong_access"](y)
    assert error.value.diagnostic.code == "M402"
    with pytest.raises(ptxlab.PtxlabError) as refused:
        host["wrong_copy"](y)
    assert refused.value.diagnostic.code == "M402"
    assert refused.value.diagnostic.message.startswith("host code: write of 1048576 bytes at 0x")
    assert host["add_on_device"](y, y, 8, 1) == 0, "an error ends with the call that it was found in"


def test_arguments(host: nvcc.Host) -> None:
    assert host["sums"](1.5, "A", np.array([7, 8], np.int32), -5_000_000_000) == 3 + 65 + 8 + 1
    for value, message in (
        (1 << 64, "argument 3 of sums: 18446744073709551616 does not fit 64 bits"),
        (object(), "argument 3 of sums: a object cannot be passed to a host function"),
        (np.zeros((4, 4))[:, 1], "argument 3 of sums: the array is not contiguous"),
    ):
        with pytest.raises(nvcc.NvccError) as error:
            host["sums"](0.0, "A", None, value)
        assert (error.value.diagnostic.code, error.value.diagnostic.message) == ("I213", message)
    with pytest.raises(nvcc.NvccError) as error:
        host["nothing"]
    assert str(error.value) == "error[I212]: the host code has no function named 'nothing'\n  fix: declare it extern \"C\""


def test_a_cuda_function_that_is_missing(library: nvcc.Host) -> None:
    text = '#include <cuda_runtime.h>\nextern "C" int call() { return cudaDeviceGetNvSciSyncAttributes(0, 0, 0); }\n'
    with pytest.raises(nvcc.NvccError) as error:
        nvcc.host("sync.cu", text=text)
    assert str(error.value) == ("error[I211]: the host code of sync.cu calls cudaDeviceGetNvSciSyncAttributes, which ptxlab does not have")


HOLDING = """
#include <cuda_runtime.h>
extern "C" {
int sum(const int *x, int n) {
  int *held = new int[n], total = 0;
  int failed = cudaMemcpy(held, x, 4 * n, cudaMemcpyDeviceToHost);
  for (int i = 0; i < n && !failed; i++) total += held[i];
  delete[] held;
  return failed ? -failed : total;
}
int devices(int *current) {
  int count = 0;
  return cudaSetDevice(0) || cudaGetDevice(current) || cudaGetDeviceCount(&count) ? -1 : count;
}
int on_a_stream(int *x, int value, int n) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t made;
  cudaStreamCreate(&stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  cudaMemsetAsync(x, value, 4 * n, stream);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&made, graph, 0);
  cudaGraphLaunch(made, stream);
  return cudaGraphExecDestroy(made) + cudaGraphDestroy(graph) + cudaStreamDestroy(stream);
}
}
"""


def test_several_devices_that_have_memory_already(library: nvcc.Host) -> None:
    """Buffers move to the memory of the driver, and the devices do not see one another."""
    first, second = ptxlab.Device("sm_100a", sms=3), ptxlab.Device("sm_90a", sms=5)
    early, late = first.array(np.arange(10, dtype=np.int32)), second.array(np.full(4, 7, np.int32))
    hosts = [nvcc.host("holding.cu", text=HOLDING, device=device) for device in (first, second)]
    for _ in range(2):
        assert hosts[0]["sum"](early, 10) == 45
        assert hosts[1]["sum"](late, 4) == 28
    current = np.full(1, -1, np.int32)
    for host in hosts:
        assert host["devices"](current) == 1
        assert current[0] == 0
    assert early.numpy().tolist() == list(range(10))


def test_work_that_is_left_on_a_stream_ends_with_the_call(host: nvcc.Host) -> None:
    other = nvcc.host("holding.cu", text=HOLDING, device=host.device)
    x = host.device.empty(8, np.int32)
    assert other["on_a_stream"](x, 1, 8) == 0
    assert x.numpy().tolist() == [0x01010101] * 8
    assert not host.device.diagnostics, "the fill has written the memory"
