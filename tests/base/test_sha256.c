/* SHA-256 against the vectors of FIPS 180-4's examples, however the text is cut; and the log's one function. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sha256.h"

static void expect_hash(const char *text, size_t bytes, size_t piece, const char *want) {
    wr_sha256 h;
    unsigned char sum[WR_SHA256_BYTES];
    char hex[2 * WR_SHA256_BYTES + 1];
    wr_sha256_init(&h);
    for (size_t at = 0; at < bytes; at += piece) wr_sha256_add(&h, text + at, bytes - at < piece ? bytes - at : piece);
    wr_sha256_end(&h, sum);
    for (int i = 0; i < WR_SHA256_BYTES; i++) sprintf(hex + 2 * i, "%02x", sum[i]);
    assert_string_equal(hex, want);
}

static void the_published_vectors_come_out(void **state) {
    (void)state;
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    for (size_t piece = 1; piece < 200; piece += 9) {
        expect_hash("", 0, piece, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        expect_hash("abc", 3, piece, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        expect_hash(two_blocks, sizeof two_blocks - 1, piece,
                    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }
    expect_hash(million, 1000000, 997, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

static char said[64];
static void take(void *context, const char *text) { snprintf(said, sizeof said, "%s%s", (char *)context, text); }

static void notices_come_to_the_function_that_is_set(void **state) {
    (void)state;
    wr_log("to %s", "nobody");
    weir_set_log(take, "heard: ");
    wr_log("%d lines", 3);
    assert_string_equal(said, "heard: 3 lines");
    weir_set_log(NULL, NULL);
    wr_log("to nobody");
    assert_string_equal(said, "heard: 3 lines");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vectors_come_out),
        cmocka_unit_test(notices_come_to_the_function_that_is_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
