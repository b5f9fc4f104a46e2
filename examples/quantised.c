/* A quantised matrix product: quantise a weight to 4 bits in groups of 64, multiply by it, and compare with the dense
 * product. */
#include <math.h>
#include <stdio.h>

#include <weir/ops.h>

int main(void) {
    enum { ROWS = 256, COLUMNS = 512 };
    weir_device *device = NULL;
    weir_graph *graph = NULL;
    weir_error err;
    int exit_code = 1;

    if (weir_device_open("cpu", 0, &device, &err) != WEIR_OK) goto fail;
    if (weir_graph_new(device, &graph, &err) != WEIR_OK) goto fail;

    weir_array *w = weir_random_normal(graph, 2, (const int64_t[]){ROWS, COLUMNS}, 1, 0);
    weir_array *x = weir_random_normal(graph, 2, (const int64_t[]){3, COLUMNS}, 2, 0);
    const weir_quant format = {.mode = WEIR_QUANT_AFFINE, .group_size = 64, .bits = 4};
    weir_array *packed, *scales, *biases;
    weir_quantize(w, format, &packed, &scales, &biases);

    weir_array *y = weir_quantized_matmul(x, packed, scales, biases, format);
    weir_array *dense = weir_linear(x, w);
    weir_array *error = weir_sub(y, dense);
    weir_array *relative =
        weir_sqrt(weir_div(weir_sum(weir_square(error), 0, NULL, false), weir_sum(weir_square(dense), 0, NULL, false)));
    weir_array *results[] = {relative, packed, scales, biases};
    if (weir_eval(results, 4, &err) != WEIR_OK) goto fail;

    const float share = *(const float *)weir_array_data(relative);
    const long long bytes = 4 * (weir_array_size(packed) + weir_array_size(scales) + weir_array_size(biases));
    printf("%lld bytes instead of %d, relative error %.3f\n", bytes, ROWS * COLUMNS * 4, (double)share);
    exit_code = share > 0.01f && share < 0.2f ? 0 : 1; /* 4 bits over about 5 standard deviations: some 8 % */
    goto done;
fail:
    fprintf(stderr, "quantised: %s\n", err.message);
done:
    weir_graph_free(graph);
    weir_device_close(device);
    return exit_code;
}
