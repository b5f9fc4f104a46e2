/* A kernel of one's own: y = x * sigmoid(alpha * x), written in CUDA C++, used as an op among others.
 *
 *   cc custom_kernel.c $(pkg-config --cflags --libs weir) -lm && ./a.out
 *
 * Without a GPU, or without NVRTC (the CUDA toolkit's run-time compiler), it says so and ends well. */
#include <math.h>
#include <stdio.h>

#include <weir/custom.h>
#include <weir/log.h>
#include <weir/ops.h>

static const char source[] =
    "template <typename T> __global__ void swish(const T *x, T *y, float alpha, long long n) {\n"
    "    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] = T(float(x[i]) / (1.0f + expf(-alpha * float(x[i]))));\n"
    "}\n";

/* "kernel swish<float> compiled for sm_90a in 95 ms by NVRTC 13.0, kept in ..."; the second run finds it there. */
static void show(void *context, const char *text) {
    (void)context;
    printf("%s\n", text);
}

int main(void) {
    enum { N = 1000 };
    weir_device *device = NULL;
    weir_graph *graph = NULL;
    weir_kernel *swish = NULL;
    weir_error err;
    int exit_code = 1;

    weir_set_log(show, NULL);
    weir_status status = weir_device_open("cuda", 0, &device, &err);
    if (status == WEIR_OK) status = weir_kernel_new(device, "swish<float>", source, NULL, &swish, &err);
    if (status == WEIR_E_UNSUPPORTED || status == WEIR_E_NOT_FOUND) {
        printf("not run: %s\n", err.message);
        exit_code = 0;
        goto done;
    }
    if (status != WEIR_OK) goto fail;
    if (weir_graph_new(device, &graph, &err) != WEIR_OK) goto fail;

    const int64_t n = N;
    const float alpha = 1.702f;
    weir_array *x = weir_arange(graph, WEIR_DTYPE_F32, -5, 5, 10.0 / N);
    weir_array *y = weir_custom(graph, swish, &x, 1,
                                &(weir_kernel_call){
                                    .dtype = WEIR_DTYPE_F32,
                                    .n_dims = 1,
                                    .shape = &n,
                                    .blocks = {(n + 255) / 256},
                                    .threads = {256},
                                    .scalars = {{&alpha, sizeof alpha}, {&n, sizeof n}},
                                    .n_scalars = 2,
                                });
    /* The same by ops, and the largest difference; nothing has run yet. */
    weir_array *by_ops = weir_mul(x, weir_sigmoid(weir_mul(x, weir_scalar_f32(graph, alpha))));
    weir_array *difference = weir_max(weir_abs(weir_sub(y, by_ops)), 0, NULL, false);
    if (weir_eval((weir_array *[]){y, difference}, 2, &err) != WEIR_OK) goto fail;

    const float *values = weir_array_data(y), *largest = weir_array_data(difference);
    if (!values || !largest) goto done;
    printf("swish(-5) = %.6f, swish(0) = %.6f; largest difference to the ops %.1e\n", (double)values[0],
           (double)values[N / 2], (double)*largest);
    exit_code = *largest < 1e-5f ? 0 : 1;
    goto done;
fail:
    fprintf(stderr, "custom_kernel: %s\n", err.message);
done:
    weir_kernel_free(swish); /* the graph holds it as long as it needs */
    weir_graph_free(graph);
    weir_device_close(device);
    return exit_code;
}
