/* Copies and fills: what is copied, ranges, kinds of memory, rectangles. */
#include <string.h>

#include "sequences.h"

static void there_and_back(const long *size) {
    unsigned char from[5000], to[5000];
    for (int i = 0; i < 5000; i++)
        from[i] = (unsigned char)(i * 7 + 1);
    memset(to, 0, sizeof to);
    start();
    CUdeviceptr first = allocate(5000), second = allocate(5000);
    CALL(cuMemcpyHtoD_v2, first, from, (size_t)*size);
    CALL(cuMemcpyDtoD_v2, second, first, (size_t)*size);
    CALL(cuMemcpyDtoH_v2, to, second, (size_t)*size);
    value("equal", memcmp(from, to, (size_t)*size) == 0);
    CALL(cuMemcpyHtoDAsync_v2, second, to, (size_t)*size, NULL);
    CALL(cuMemcpyDtoDAsync_v2, first, second, (size_t)*size, NULL);
    CALL(cuMemcpyDtoHAsync_v2, from, first, (size_t)*size, NULL);
    CALL(cuCtxSynchronize);
    value("equal", memcmp(from, to, (size_t)*size) == 0);
    CALL(cuMemcpy, first, (CUdeviceptr)to, (size_t)*size);
    CALL(cuMemcpy, (CUdeviceptr)from, first, (size_t)*size);
    CALL(cuMemcpyAsync, (CUdeviceptr)from, first, (size_t)*size, NULL);
    CALL(cuCtxSynchronize);
}

static void out_of_range(const long *p) {
    static char host[8 << 20];
    start();
    CUdeviceptr address = allocate(1000);
    CALL(cuMemcpyHtoD_v2, address + p[0], host, (size_t)p[1]);
    CALL(cuMemcpyDtoH_v2, host, address + p[0], (size_t)p[1]);
    CALL(cuMemsetD8_v2, address + p[0], 1, (size_t)p[1]);
    CALL(cuMemcpyDtoD_v2, address + p[0], address, (size_t)p[1]);
    CALL(cuCtxSynchronize);
}

static void null_pointers(const long *p) {
    char host[64];
    (void)p;
    start();
    CUdeviceptr address = allocate(64);
    CALL(cuMemcpyHtoD_v2, (CUdeviceptr)0, host, (size_t)16);
    CALL(cuMemcpyHtoD_v2, address, NULL, (size_t)16);
    CALL(cuMemcpyDtoH_v2, NULL, address, (size_t)16);
    CALL(cuMemcpyDtoH_v2, host, (CUdeviceptr)0, (size_t)16);
    CALL(cuMemcpyDtoD_v2, address, (CUdeviceptr)0, (size_t)16);
    CALL(cuMemcpy, address, (CUdeviceptr)0, (size_t)16);
    CALL(cuMemcpyHtoD_v2, (CUdeviceptr)0, host, (size_t)0);
    CALL(cuMemcpyHtoD_v2, address, NULL, (size_t)0);
    CALL(cuMemsetD8_v2, (CUdeviceptr)0, 0, (size_t)0);
    CALL(cuMemsetD8_v2, (CUdeviceptr)0, 0, (size_t)16);
    CALL(cuMemcpyHtoD_v2, (CUdeviceptr)host, host + 32, (size_t)16);
    CALL(cuMemcpyDtoH_v2, host, (CUdeviceptr)(host + 32), (size_t)16);
    CALL(cuCtxSynchronize);
}

static void after_free(const long *p) {
    char host[64];
    (void)p;
    start();
    CUdeviceptr address = allocate((size_t)4 << 20);
    CALL(cuMemFree_v2, address);
    CALL(cuMemcpyHtoD_v2, address, host, (size_t)16);
    CALL(cuMemcpyDtoH_v2, host, address, (size_t)16);
    CALL(cuMemsetD32_v2, address, 0, (size_t)4);
    CALL(cuCtxSynchronize);
}

static void fill(const long *p) {
    unsigned char host[256];
    start();
    CUdeviceptr address = allocate(256);
    CALL(cuMemsetD8_v2, address, 0, (size_t)256);
    if (p[0] == 1)
        CALL(cuMemsetD8_v2, address + p[1], 0xA5, (size_t)p[2]);
    if (p[0] == 2)
        CALL(cuMemsetD16_v2, address + p[1], 0xBEEF, (size_t)p[2]);
    if (p[0] == 4)
        CALL(cuMemsetD32_v2, address + p[1], 0xDEADBEEF, (size_t)p[2]);
    CALL(cuMemcpyDtoH_v2, host, address, (size_t)256);
    long long sum = 0;
    for (int i = 0; i < 256; i++)
        sum += (i + 1) * host[i];
    value("sum", sum);
}

static void fill_rows(const long *p) {
    unsigned char host[1024];
    start();
    CUdeviceptr address = allocate(1024);
    CALL(cuMemsetD8_v2, address, 0, (size_t)1024);
    size_t row = (size_t)p[1], width = (size_t)p[2];
    if (p[0] == 1)
        CALL(cuMemsetD2D8_v2, address, row, 0xA5, width, (size_t)4);
    if (p[0] == 2)
        CALL(cuMemsetD2D16_v2, address, row, 0xBEEF, width, (size_t)4);
    if (p[0] == 4)
        CALL(cuMemsetD2D32_v2, address, row, 0xDEADBEEF, width, (size_t)4);
    CALL(cuMemcpyDtoH_v2, host, address, (size_t)1024);
    long long sum = 0;
    for (int i = 0; i < 1024; i++)
        sum += (i + 1) * host[i];
    value("sum", sum);
}

static void rectangle(const long *p) {
    unsigned char from[64 * 16], to[64 * 16];
    for (int i = 0; i < (int)sizeof from; i++)
        from[i] = (unsigned char)(i * 5 + 3);
    memset(to, 0, sizeof to);
    start();
    CUdeviceptr device = allocate(4096);
    CUDA_MEMCPY2D copy;
    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = 1;
    copy.srcHost = from;
    copy.srcPitch = (size_t)p[0];
    copy.srcXInBytes = 3;
    copy.srcY = 1;
    copy.dstMemoryType = 2;
    copy.dstDevice = device;
    copy.dstPitch = (size_t)p[1];
    copy.WidthInBytes = (size_t)p[2];
    copy.Height = (size_t)p[3];
    CALL(cuMemcpy2D_v2, &copy);
    CALL(cuMemcpy2DUnaligned_v2, &copy);
    CALL(cuMemcpy2DAsync_v2, &copy, NULL);
    CALL(cuCtxSynchronize);
    CALL(cuMemcpyDtoH_v2, to, device, sizeof to);
    long long sum = 0;
    for (int row = 0; row < p[3]; row++)
        for (int i = 0; i < p[2] && row * p[1] + i < (long)sizeof to; i++)
            sum += (row * 64 + i + 1) * to[row * p[1] + i];
    value("sum", sum);
}

static void rectangle_wrong(const long *p) {
    char host[64];
    start();
    CUDA_MEMCPY2D copy;
    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = (unsigned int)p[0];
    copy.srcHost = host;
    copy.srcDevice = p[0] == 2 ? allocate(64) : 0;
    copy.dstMemoryType = (unsigned int)p[1];
    copy.dstDevice = allocate(64);
    copy.dstHost = host;
    copy.WidthInBytes = copy.Height = 4;
    copy.srcPitch = copy.dstPitch = 8;
    CALL(cuMemcpy2D_v2, &copy);
    CALL(cuMemcpy2D_v2, NULL);
}

static void box(const long *p) {
    unsigned char from[4096], to[4096];
    for (int i = 0; i < 4096; i++)
        from[i] = (unsigned char)(i * 3 + 1);
    memset(to, 0, sizeof to);
    start();
    CUdeviceptr device = allocate(4096);
    CALL(cuMemsetD8_v2, device, 0, (size_t)4096);
    CUDA_MEMCPY3D copy;
    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = 1;
    copy.srcHost = from;
    copy.srcPitch = 16;
    copy.srcHeight = (size_t)p[0];
    copy.dstMemoryType = 2;
    copy.dstDevice = device;
    copy.dstPitch = 32;
    copy.dstHeight = 8;
    copy.dstXInBytes = 2;
    copy.WidthInBytes = (size_t)p[1];
    copy.Height = 4;
    copy.Depth = (size_t)p[2];
    CALL(cuMemcpy3D_v2, &copy);
    CALL(cuMemcpy3DAsync_v2, &copy, NULL);
    CALL(cuMemcpyDtoH_v2, to, device, (size_t)4096);
    long long sum = 0;
    for (int i = 0; i < 4096; i++)
        sum += (i % 1000 + 1) * to[i];
    value("sum", sum);
}

void add_copies(void) {
    static const long SIZES[] = {0, 1, 3, 16, 100, 4096, 5000};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++)
        add("copy.there_and_back", there_and_back, 1, SIZES[i]);
    add("copy.out_of_range", out_of_range, 2, 0L, 1001L);
    add("copy.out_of_range", out_of_range, 2, 500L, 501L);
    add("copy.out_of_range", out_of_range, 2, 0L, 4L << 20);
    add("copy.out_of_range", out_of_range, 2, 1000L, 1L);
    add("copy.null_pointers", null_pointers, 0);
    add("copy.after_free", after_free, 0);
    static const long FILLS[][3] = {{1, 0, 256}, {1, 3, 7},  {1, 5, 0},  {2, 0, 128}, {2, 2, 9}, {2, 1, 9},
                                    {4, 0, 64},  {4, 4, 10}, {4, 2, 10}, {4, 1, 1},   {1, 255, 1}};
    for (size_t i = 0; i < sizeof FILLS / sizeof *FILLS; i++)
        add("copy.fill", fill, 3, FILLS[i][0], FILLS[i][1], FILLS[i][2]);
    static const long ROWS[][3] = {{1, 64, 10}, {1, 10, 64}, {2, 64, 10}, {2, 63, 10}, {4, 64, 10}, {4, 66, 10}, {4, 16, 10}, {1, 0, 10}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        add("copy.fill_rows", fill_rows, 3, ROWS[i][0], ROWS[i][1], ROWS[i][2]);
    static const long RECTANGLES[][4] = {{64, 64, 20, 8}, {64, 20, 20, 8},  {64, 19, 20, 8}, {22, 64, 20, 4}, {64, 64, 0, 8},
                                         {64, 64, 20, 0}, {64, 128, 20, 1}, {0, 64, 20, 1},  {0, 0, 20, 2},   {64, 1L << 33, 20, 2}};
    for (size_t i = 0; i < sizeof RECTANGLES / sizeof *RECTANGLES; i++)
        add("copy.rectangle", rectangle, 4, RECTANGLES[i][0], RECTANGLES[i][1], RECTANGLES[i][2], RECTANGLES[i][3]);
    for (long kind = 0; kind < 6; kind++)
        add("copy.rectangle_wrong", rectangle_wrong, 2, kind, kind == 2 ? 1L : 2L);
    add("copy.box", box, 3, 4L, 16L, 3L);
    add("copy.box", box, 3, 5L, 8L, 2L);
    add("copy.box", box, 3, 4L, 8L, 0L);
    add("copy.box", box, 3, 3L, 8L, 2L);
}
