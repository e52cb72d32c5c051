/* Launches: the checks of the driver, the packed parameters, and the operation that the core runs. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { PORTABLE_CLUSTER = 8, MOST_CLUSTER = 16, MOST_THREADS = 1024, MOST_DEPTH = 64, MOST_GRID_YZ = 65535, MOST_ATTRIBUTES = 64 };
enum { SMS = 16, THREADS_PER_SM = 39, CTAS_PER_SM = 106 };

typedef struct LaunchOp {
    Op op;
    LaunchRequest request;
    CUfunction function;
    Image *image;
    unsigned char *parameters;
    uint64_t ticket;
    CUevent completed; /* recorded after the launch; null if there is none */
} LaunchOp;

static CUresult prepare(Op *op, CUstream stream)
{
    LaunchOp *launch = (LaunchOp *)op;
    launch->request.device = stream->context->device;
    return driver.core.prepare_launch(&launch->request, &launch->ticket);
}

static CUresult run(Op *op)
{
    LaunchOp *launch = (LaunchOp *)op;
    return driver.core.run_launch(launch->ticket, 0);
}

static void cancel(Op *op)
{
    LaunchOp *launch = (LaunchOp *)op;
    driver.core.run_launch(launch->ticket, 1);
}

static void release(Op *op)
{
    free(((LaunchOp *)op)->parameters);
    image_drop(((LaunchOp *)op)->image);
}

/* What it accesses is known when it has ended. */
static bool describe(const Op *op, AccessRange *ranges, uint32_t *count, const char **what)
{
    Kernel *kernel;
    (void)ranges, (void)count;
    *what = kernel_of(((const LaunchOp *)op)->function, &kernel) ? "of an unloaded module" : kernel->name;
    return false;
}

static bool copied(Op *made, const Op *from)
{
    LaunchOp *launch = (LaunchOp *)made;
    const LaunchOp *original = (const LaunchOp *)from;
    launch->parameters = malloc(original->request.parameter_bytes + 1);
    if (!launch->parameters)
        return false;
    memcpy(launch->parameters, original->parameters, original->request.parameter_bytes);
    launch->request.parameters = launch->parameters;
    image_keep(launch->image);
    return true;
}

static const OpClass launches = {
    .size = sizeof(LaunchOp), .node = NODE_KERNEL, .prepare = prepare, .perform = run, .cancel = cancel, .dispose = release, .copied = copied,
    .describe = describe};

/* ------------------------------------------------------------------ parameters */

static CUresult pack_each(const KernelInfo *info, unsigned char *packed, void **parameters)
{
    if (!info->parameter_count)
        return CUDA_SUCCESS;
    if (!parameters)
        return CUDA_ERROR_INVALID_VALUE;
    void **list = malloc(info->parameter_count * sizeof *list);
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool read = read_program(list, parameters, info->parameter_count * sizeof *list) &&
                read_pieces(packed, info->parameters, list, info->parameter_count);
    free(list);
    return read ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult pack_buffer(const KernelInfo *info, unsigned char *packed, void **extra)
{
    enum { MOST_WORDS = 16 };
    const void *buffer = NULL;
    size_t size = 0;
    for (int i = 0; i < MOST_WORDS; i += 2) {
        void *pair[2];
        if (!read_program(pair, extra + i, sizeof *pair))
            return CUDA_ERROR_INVALID_VALUE;
        if (pair[0] == CU_LAUNCH_PARAM_END)
            break;
        if (!read_program(pair, extra + i, sizeof pair))
            return CUDA_ERROR_INVALID_VALUE;
        if (pair[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = pair[1];
        else if (pair[0] != CU_LAUNCH_PARAM_BUFFER_SIZE || !read_program(&size, pair[1], sizeof size))
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (size > info->parameter_bytes)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (size < info->parameter_bytes || !read_program(packed, buffer, info->parameter_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ checks */

typedef struct Attributes {
    uint32_t cluster[3];
    bool cooperative;
    CUevent completed;
} Attributes;

static CUresult read_attributes(Attributes *found, const CUlaunchConfig *config)
{
    *found = (Attributes){0};
    if (config->numAttrs > MOST_ATTRIBUTES || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        const CUlaunchAttributeValue *value = &attribute->value;
        switch (attribute->id) {
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            found->cluster[0] = value->clusterDim.x;
            found->cluster[1] = value->clusterDim.y;
            found->cluster[2] = value->clusterDim.z;
            break;
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            found->cooperative = value->cooperative != 0;
            break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
            found->completed = value->programmaticEvent.event;
            break;
        case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
            found->completed = value->launchCompletionEvent.event;
            break;
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return !found->completed || handle_is(found->completed, HANDLE_EVENT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult refuse(CUresult result, const char *text)
{
    report(REPORT_LAUNCH, "cuLaunchKernel", 0, text);
    return result;
}

static CUresult check_shape(const CUlaunchConfig *config, const int32_t *limits)
{
    uint64_t threads = (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ;
    if (!config->gridDimX || !config->gridDimY || !config->gridDimZ)
        return refuse(CUDA_ERROR_INVALID_VALUE, "the grid has no CTA");
    if (config->gridDimX > INT32_MAX || config->gridDimY > MOST_GRID_YZ || config->gridDimZ > MOST_GRID_YZ)
        return refuse(CUDA_ERROR_INVALID_VALUE, "a dimension of the grid is too large");
    if (!threads || config->blockDimX > MOST_THREADS || config->blockDimY > MOST_THREADS || config->blockDimZ > MOST_DEPTH ||
        threads > MOST_THREADS)
        return refuse(CUDA_ERROR_INVALID_VALUE, "a CTA has 1 to 1024 threads, in z at most 64");
    if (threads > (uint64_t)limits[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK])
        return refuse(CUDA_ERROR_INVALID_VALUE, "a CTA has more threads than the kernel permits");
    if (config->sharedMemBytes > (uint64_t)limits[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES])
        return refuse(CUDA_ERROR_INVALID_VALUE,
                      "more dynamic shared memory than attribute 8 of the function permits: set MAX_DYNAMIC_SHARED_SIZE_BYTES");
    return CUDA_SUCCESS;
}

static CUresult check_cluster(const CUlaunchConfig *config, const int32_t *limits, const uint32_t *cluster)
{
    const uint32_t required[3] = {(uint32_t)limits[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH],
                                  (uint32_t)limits[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT],
                                  (uint32_t)limits[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH]};
    bool given = cluster[0] || cluster[1] || cluster[2];
    const uint32_t *used = given ? cluster : required;
    if (!used[0] && !used[1] && !used[2]) {
        if (limits[CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET])
            return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "the kernel needs clusters, and the launch gives no size of them");
        return CUDA_SUCCESS;
    }
    if (!used[0] || !used[1] || !used[2])
        return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "a dimension of the cluster is 0");
    if (given && required[0] && memcmp(used, required, sizeof required) != 0)
        return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "the cluster is not the one that the kernel requires");
    uint64_t size = (uint64_t)used[0] * used[1] * used[2];
    if (size > MOST_CLUSTER)
        return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "a cluster has at most 16 CTAs");
    if (size > PORTABLE_CLUSTER && !limits[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED])
        return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                      "a cluster of more than 8 CTAs needs the attribute NON_PORTABLE_CLUSTER_SIZE_ALLOWED of the function");
    if (config->gridDimX % used[0] || config->gridDimY % used[1] || config->gridDimZ % used[2])
        return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "the grid is not a multiple of the cluster");
    return CUDA_SUCCESS;
}

/* All CTAs of a cooperative launch are resident at the same time. */
static CUresult check_cooperative(const CUlaunchConfig *config)
{
    const int32_t *device = device_of(current_context()->device)->attributes;
    uint64_t threads = (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ, warps = (threads + 31) / 32;
    uint64_t of_sm = (uint64_t)device[THREADS_PER_SM] / (warps * 32), slots = (uint64_t)device[CTAS_PER_SM];
    uint64_t most = (uint64_t)device[SMS] * (of_sm < slots ? of_sm : slots);
    if ((uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ > most)
        return refuse(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "the CTAs of a cooperative launch are not resident together");
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ the operation */

CUresult make_launch(Op **op, const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    Kernel *kernel;
    Attributes attributes;
    CUresult refused = kernel_of(function, &kernel);
    if (refused)
        return refused;
    const KernelInfo *info = &kernel->info;
    if (parameters && extra)
        return CUDA_ERROR_INVALID_VALUE;
    refused = read_attributes(&attributes, config);
    refused = refused ? refused : check_shape(config, info->attributes);
    refused = refused ? refused : check_cluster(config, info->attributes, attributes.cluster);
    if (!refused && attributes.cooperative)
        refused = check_cooperative(config);
    if (refused)
        return refused;
    LaunchOp *launch = op_new(&launches);
    unsigned char *packed = calloc(1, info->parameter_bytes + 1);
    if (!launch || !packed) {
        free(launch);
        free(packed);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    launch->parameters = packed;
    launch->function = function;
    launch->image = kernel->module->image;
    image_keep(launch->image);
    launch->completed = attributes.completed;
    launch->request = (LaunchRequest){
        .image = launch->image->id,
        .kernel = kernel->index,
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .cluster = {attributes.cluster[0], attributes.cluster[1], attributes.cluster[2]},
        .shared_bytes = config->sharedMemBytes,
        .cooperative = attributes.cooperative,
        .parameter_bytes = info->parameter_bytes,
        .parameters = packed,
    };
    refused = extra ? pack_buffer(info, packed, extra) : pack_each(info, packed, parameters);
    if (refused)
        op_free(&launch->op);
    else
        *op = &launch->op;
    return refused;
}

void describe_launch(Op *op, CUDA_KERNEL_NODE_PARAMS *found, unsigned char **packed)
{
    LaunchOp *launch = (LaunchOp *)op;
    const LaunchRequest *request = &launch->request;
    *found = (CUDA_KERNEL_NODE_PARAMS){
        .func = launch->function,
        .gridDimX = request->grid[0],
        .gridDimY = request->grid[1],
        .gridDimZ = request->grid[2],
        .blockDimX = request->block[0],
        .blockDimY = request->block[1],
        .blockDimZ = request->block[2],
        .sharedMemBytes = request->shared_bytes,
    };
    *packed = launch->parameters;
}

bool launch_attribute(Op *op, CUlaunchAttributeID id, CUlaunchAttributeValue *value, bool set)
{
    LaunchRequest *request = &((LaunchOp *)op)->request;
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
        if (set)
            request->cooperative = value->cooperative != 0;
        value->cooperative = (int)request->cooperative;
        return true;
    }
    if (id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        return false;
    uint32_t *size = request->cluster;
    if (set) {
        size[0] = value->clusterDim.x;
        size[1] = value->clusterDim.y;
        size[2] = value->clusterDim.z;
    }
    value->clusterDim.x = size[0];
    value->clusterDim.y = size[1];
    value->clusterDim.z = size[2];
    return true;
}

static CUresult launch(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    CUstream stream = stream_of(config->hStream);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    Op *op;
    CUresult refused = make_launch(&op, config, function, parameters, extra);
    if (refused)
        return refused;
    CUevent completed = ((LaunchOp *)op)->completed;
    CUresult result = submit_and_linger(stream, op);
    return result || !completed ? result : ptxlab_cuEventRecord(completed, stream);
}

CUresult ptxlab_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    return config ? launch(config, function, parameters, extra) : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                               unsigned int bz, unsigned int shared, CUstream stream, void **parameters, void **extra)
{
    CUlaunchConfig config = {gx, gy, gz, bx, by, bz, shared, stream, NULL, 0};
    return launch(&config, function, parameters, extra);
}

CUresult ptxlab_cuLaunchCooperativeKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                          unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **parameters)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    CUlaunchConfig config = {gx, gy, gz, bx, by, bz, shared, stream, &attribute, 1};
    return launch(&config, function, parameters, NULL);
}

CUresult ptxlab_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches, unsigned int count, unsigned int flags)
{
    (void)launches, (void)count, (void)flags;
    return ptxlab_unsupported("cuLaunchCooperativeKernelMultiDevice");
}
