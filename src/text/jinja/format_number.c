/* Numbers as format specifications have them: digits, groups, signs, padding. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja/format.h"
#include "text/jinja/show.h"

enum { PRECISION_MAX = 500, DIGITS_BYTES = 900 };

bool wr_jformat_pad(wr_jrun *run, wr_jstr *s, const wr_jspec *spec, char fallback, wr_jbuf *buf) {
    size_t chars = wr_jstr_chars(s), width = spec->width > 0 ? (size_t)spec->width : 0;
    size_t all = width > chars ? width - chars : 0;
    char align = spec->align ? spec->align : fallback;
    size_t left = align == '>' ? all : align == '^' ? all / 2 : 0;
    wr_jbuf fill = {0};
    if (!all) return wr_jbuf_add(run, buf, s->data, s->bytes);
    if (!wr_jbuf_char(run, &fill, spec->fill ? spec->fill : ' ')) return false;
    return wr_jbuf_fill(run, buf, fill.data, fill.n, left) && wr_jbuf_add(run, buf, s->data, s->bytes) &&
           wr_jbuf_fill(run, buf, fill.data, fill.n, all - left);
}

/* sign, prefix and digits (the first `whole` of them before the point, which groups may
 * cut) in a field. */
static bool put_number(wr_jrun *run, char sign, const char *prefix, const char *digits, size_t n, size_t whole,
                       int group, const wr_jspec *spec, wr_jbuf *buf) {
    wr_jbuf text = {0};
    size_t head = (sign != 0) + strlen(prefix), zeros = 0, width = spec->width > 0 ? (size_t)spec->width : 0;
    bool zero_fill = spec->align == '=' || (!spec->align && spec->zero);
    uint32_t fill = spec->fill ? spec->fill : spec->zero ? '0' : ' ';
    wr_jval v;
    if (width > run->output_bytes)
        return wr_jfail(run, WEIR_E_LIMIT, "the output limit of %zu bytes is reached", run->output_bytes);
    if (sign && !wr_jbuf_add(run, &text, &sign, 1)) return false;
    if (!wr_jbuf_add(run, &text, prefix, strlen(prefix))) return false;
    size_t commas = spec->grouping && whole ? (whole - 1) / (size_t)group : 0;
    size_t length = head + n + commas;
    if (zero_fill && fill == '0' && width > length) {
        /* Zeros are digits: they are grouped too, and may overshoot the width by a comma. */
        zeros = width - length;
        if (spec->grouping) {
            size_t rest = n - whole;
            zeros = 0;
            for (size_t w = whole; head + rest + w + (w - 1) / (size_t)group < width; w++) zeros++;
        }
    } else if (zero_fill && width > length) {
        wr_jbuf one = {0};
        if (!wr_jbuf_char(run, &one, fill) || !wr_jbuf_fill(run, &text, one.data, one.n, width - length)) return false;
    }
    for (size_t i = 0; i < zeros + n; i++) {
        size_t left = i < zeros + whole ? zeros + whole - i : 0; /* digits to the point */
        if (spec->grouping && i && left && left % (size_t)group == 0 && !wr_jbuf_add(run, &text, &spec->grouping, 1))
            return false;
        if (!wr_jbuf_add(run, &text, i < zeros ? "0" : &digits[i - zeros], 1)) return false;
    }
    if (!wr_jbuf_str(run, &text, &v)) return false;
    wr_jspec field = *spec;
    field.fill = fill;
    if (zero_fill) field.align = '>'; /* full already */
    return wr_jformat_pad(run, v.s, &field, '>', buf);
}

bool wr_jformat_int(wr_jrun *run, int64_t value, const wr_jspec *spec, wr_jbuf *buf) {
    char digits[72], *p = digits + sizeof digits;
    const char *prefix = "";
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    char type = spec->type ? spec->type : 'd';
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
    if (type == 'c') {
        wr_jbuf one = {0};
        wr_jval v;
        if (value < 0 || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
            return WR_JERROR(run, "%%c arg not in range(0x110000)");
        return wr_jbuf_char(run, &one, (uint32_t)value) && wr_jbuf_str(run, &one, &v) &&
               wr_jformat_pad(run, v.s, spec, '<', buf);
    }
    do {
        *--p = (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[rest % base];
        rest /= base;
    } while (rest);
    if (spec->alternate)
        prefix = type == 'b' ? "0b" : type == 'o' ? "0o" : type == 'x' ? "0x" : type == 'X' ? "0X" : "";
    size_t n = (size_t)(digits + sizeof digits - p), at_least = spec->precision > 0 ? (size_t)spec->precision : 0;
    char padded[PRECISION_MAX + 72];
    if (at_least > PRECISION_MAX)
        return wr_jfail(run, WEIR_E_LIMIT, "a precision above %d is not supported", PRECISION_MAX);
    if (at_least > n) { /* only % formats have a precision for integers: digits */
        memset(padded, '0', at_least - n);
        memcpy(padded + at_least - n, p, n);
        p = padded;
        n = at_least;
    }
    char sign = value < 0 ? '-' : spec->sign == '+' || spec->sign == ' ' ? spec->sign : 0;
    return put_number(run, sign, prefix, p, n, n, base == 10 ? 3 : 4, spec, buf);
}

/* repr's digits for a float without type, but with a precision: %g with a point. */
static void general(double x, int64_t precision, char *out, size_t cap) {
    snprintf(out, cap, "%.*g", precision > 0 ? (int)precision : 1, x);
    if (strchr(out, '.') || strchr(out, 'e') || !isfinite(x)) return;
    /* Python's rule for no type: an exponent already when the point would be last. */
    size_t n = strlen(out);
    if ((int64_t)n >= precision && precision > 0 && n > 1) {
        snprintf(out, cap, "%.*e", (int)precision - 1, x);
        char *e = strchr(out, 'e'), *end = e;
        while (strchr(out, '.') && (end[-1] == '0' || end[-1] == '.')) {
            bool point = end[-1] == '.';
            end--;
            if (point) break;
        }
        memmove(end, e, strlen(e) + 1);
        return;
    }
    memcpy(out + n, ".0", 3);
}

bool wr_jformat_float(wr_jrun *run, double value, const wr_jspec *spec, wr_jbuf *buf) {
    char text[DIGITS_BYTES], form[8] = "%.*", type = spec->type;
    double x = fabs(value);
    int64_t precision = spec->precision < 0 ? 6 : spec->precision;
    size_t n = 3;
    if (precision > PRECISION_MAX)
        return wr_jfail(run, WEIR_E_LIMIT, "a precision above %d is not supported", PRECISION_MAX);
    bool percent = type == '%';
    if (percent) x *= 100;
    if (!type && spec->precision < 0) {
        wr_jfloat_repr(x, text);
    } else if (!type) {
        general(x, spec->precision, text, sizeof text);
    } else {
        if (type == 'n') type = 'g';
        if (spec->alternate) {
            memcpy(form, "%#.*", 4);
            n = 4;
        }
        form[n] = percent ? 'f' : type;
        form[n + 1] = 0;
        snprintf(text, sizeof text, form, (int)precision, x);
    }
    n = strlen(text);
    if (percent) memcpy(text + n++, "%", 2);
    size_t whole = 0;
    while (isdigit((unsigned char)text[whole])) whole++;
    char sign = signbit(value) && !isnan(value) ? '-' : spec->sign == '+' || spec->sign == ' ' ? spec->sign : 0;
    wr_jspec field = *spec;
    if (!isfinite(value)) field.grouping = 0;
    return put_number(run, sign, "", text, n, whole, 3, &field, buf);
}
