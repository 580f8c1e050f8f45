/* SPDX-License-Identifier: MIT */
/*
 * Messages, and the memory that a configuration owns.
 *
 *  1. The first error is the one that is told: later ones follow from it.
 *  2. No control byte of a file reaches a terminal or a log.
 *  3. What is freed goes back to the kernel, and so is wiped.
 *  4. A password stands once in memory, in the endpoint that it is for, and
 *     in no core dump.  A child of fork(2) needs it as its parent does.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/internal.h"
#include "model/text.h"

static void make_printable(char *text)
{
	size_t len = strlen(text), n;

	for (; len; text += n, len -= n) {
		uint32_t c;

		n = dlk_utf8(text, len, &c);
		if (n && dlk_text_printable(c))
			continue;
		n = n ?: 1;
		memset(text, '?', n);
	}
}

static void set_text(struct dlk_error *err, const char *fmt, va_list ap)
{
	if (!err || err->text[0])
		return;
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	make_printable(err->text);
}

int dlk_error_set(struct dlk_error *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set_text(err, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static void located(struct dlk_build *b, struct dlk_error *err, int line,
		    const char *fmt, va_list ap)
{
	struct dlk_error text = { "" };

	set_text(&text, fmt, ap);
	if (line > 0)
		dlk_error_set(err, "%s:%d: %s", b->file, line, text.text);
	else
		dlk_error_set(err, "%s: %s", b->file, text.text);
}

int dlk_fail(struct dlk_build *b, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	located(b, b->err, line, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

void dlk_warn(struct dlk_build *b, int line, const char *fmt, ...)
{
	struct dlk_error text = { "" };
	va_list ap;

	if (!b->warn)
		return;
	va_start(ap, fmt);
	located(b, &text, line, fmt, ap);
	va_end(ap);
	b->warn(b->warn_arg, text.text);
}

int dlk_no_memory(struct dlk_build *b)
{
	dlk_fail(b, 0, "out of memory");
	return -ENOMEM;
}

void *dlk_own(struct dlk_build *b, size_t n, size_t size)
{
	struct dlk_arena *was = dlk_arena_use(&b->own->arena);
	void *p = dlk_arena_calloc(n, size);

	dlk_arena_use(was);
	if (!p)
		dlk_no_memory(b);
	return p;
}

char *dlk_own_text(struct dlk_build *b, const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = dlk_own(b, 1, size);

	return copy ? memcpy(copy, text, size) : NULL;
}

void dlk_config_free(struct dlk_config *config)
{
	struct dlk_owned *own = (struct dlk_owned *)config;

	if (!own)
		return;
	dlk_arena_reset(&own->arena);
	free(own);
}
