/* SPDX-License-Identifier: MIT */
/*
 * Messages, and the memory that a configuration owns.
 *
 *  1. The first error is the one that is told: later ones follow from it.
 *  2. No control byte of a file reaches a terminal or a log.
 *  3. What is freed is wiped.
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
#include "os/sys.h"

/* The size stands before the bytes, so that freeing can wipe them. */
struct dlk_block {
	struct dlk_block *next;
	size_t size;
	void (*give_back)(void *block, size_t size);
	_Alignas(max_align_t) char bytes[];
};

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

static void give_to_heap(void *block, size_t size)
{
	(void)size;
	free(block);
}

static void *zeroed(size_t size)
{
	return calloc(1, size);
}

static void *own(struct dlk_build *b, size_t n, size_t size,
		 void *(*take)(size_t size),
		 void (*give_back)(void *block, size_t size))
{
	struct dlk_block *block = NULL;
	size_t bytes;

	if (!__builtin_mul_overflow(n, size, &bytes) && bytes <= SIZE_MAX / 2)
		block = take(sizeof(*block) + bytes);
	if (!block) {
		dlk_fail(b, 0, "out of memory");
		return NULL;
	}
	block->size = bytes;
	block->give_back = give_back;
	block->next = b->own->blocks;
	b->own->blocks = block;
	return block->bytes;
}

void *dlk_own(struct dlk_build *b, size_t n, size_t size)
{
	return own(b, n, size, zeroed, give_to_heap);
}

void *dlk_own_secret(struct dlk_build *b, size_t n, size_t size)
{
	return own(b, n, size, dlk_undumped, dlk_undumped_free);
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
	struct dlk_block *block, *next;

	if (!own)
		return;
	for (block = own->blocks; block; block = next) {
		next = block->next;
		explicit_bzero(block->bytes, block->size);
		block->give_back(block, sizeof(*block) + block->size);
	}
	free(own);
}

struct dlk_span dlk_span(uint64_t ms)
{
	unsigned long long n = ms;
	struct dlk_span s;

	if (n && n % 3600000 == 0)
		snprintf(s.text, sizeof(s.text), "%lluh", n / 3600000);
	else if (n && n % 60000 == 0)
		snprintf(s.text, sizeof(s.text), "%llum", n / 60000);
	else if (n % 1000 == 0)
		snprintf(s.text, sizeof(s.text), "%llus", n / 1000);
	else
		snprintf(s.text, sizeof(s.text), "%llums", n);
	return s;
}
