/* Array arithmetic: standardise the columns of a small table.
 *
 *   cc arrays.c $(pkg-config --cflags --libs weir) -lm && ./a.out */
#include <math.h>
#include <stdio.h>

#include <weir/ops.h>

int main(void) {
    weir_device *device = NULL;
    weir_graph *graph = NULL;
    weir_error err;
    int exit_code = 1;

    if (weir_device_open("cpu", 0, &device, &err) != WEIR_OK) goto fail;
    if (weir_graph_new(device, &graph, &err) != WEIR_OK) goto fail;

    const float table[4][3] = {{1, 20, 300}, {2, 10, 100}, {3, 40, 400}, {4, 30, 200}};
    const int rows = 0;
    weir_array *x = weir_from_data(graph, WEIR_DTYPE_F32, 2, (const int64_t[]){4, 3}, table);
    weir_array *centred = weir_sub(x, weir_mean(x, 1, &rows, true));
    weir_array *deviation = weir_sqrt(weir_mean(weir_square(centred), 1, &rows, true));
    weir_array *y = weir_div(centred, deviation);

    /* Nothing has been computed or checked yet; both happen here. */
    if (weir_eval(&y, 1, &err) != WEIR_OK) goto fail;

    const float *values = weir_array_data(y);
    float largest_sum = 0;
    for (int column = 0; column < 3; column++) {
        float sum = 0;
        for (int row = 0; row < 4; row++) sum += values[3 * row + column];
        largest_sum = fmaxf(largest_sum, fabsf(sum));
    }
    for (int row = 0; row < 4; row++)
        printf("%8.4f %8.4f %8.4f\n", (double)values[3 * row], (double)values[3 * row + 1],
               (double)values[3 * row + 2]);
    exit_code = largest_sum < 1e-5f ? 0 : 1; /* every column now has mean 0 */
    goto done;
fail:
    fprintf(stderr, "arrays: %s\n", err.message);
done:
    weir_graph_free(graph);
    weir_device_close(device);
    return exit_code;
}
