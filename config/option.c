/* SPDX-License-Identifier: MIT */
/*
 * One option of a section: its text, its line, its value.
 *
 * Every complaint has one form, so that an operator need not search:
 *
 *	FILE:LINE: option 'ttl' of path "/x/": "3x" is not a duration (...)
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/internal.h"

const char *dlk_opt_text(cfg_t *sec, const char *name)
{
	cfg_opt_t *opt = cfg_getopt(sec, name);

	return cfg_opt_size(opt) ? cfg_opt_getnstr(opt, 0) : NULL;
}

bool dlk_has_control(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return true;
	}
	return false;
}

int dlk_opt_line(cfg_t *sec, const char *name)
{
	const char *line = cfg_opt_getcomment(cfg_getopt(sec, name));

	return line ? (int)strtol(line, NULL, 10) : sec->line;
}

/* "option 'ttl' of path "/x/": TEXT"; the top level has no title. */
static void describe(struct dlk_error *text, cfg_t *sec, const char *name,
		     const char *fmt, va_list ap)
{
	const char *title = cfg_title(sec);
	int n;

	if (title)
		n = snprintf(text->text, sizeof(text->text),
			     "option '%s' of %s \"%.300s\": ", name,
			     cfg_name(sec), title);
	else
		n = snprintf(text->text, sizeof(text->text),
			     "option '%s': ", name);
	vsnprintf(text->text + n, sizeof(text->text) - (size_t)n, fmt, ap);
}

int dlk_opt_fail(struct dlk_build *b, cfg_t *sec, const char *name,
		 const char *fmt, ...)
{
	struct dlk_error text;
	va_list ap;

	va_start(ap, fmt);
	describe(&text, sec, name, fmt, ap);
	va_end(ap);
	return dlk_fail(b, dlk_opt_line(sec, name), "%s", text.text);
}

void dlk_opt_warn(struct dlk_build *b, cfg_t *sec, const char *name,
		  const char *fmt, ...)
{
	struct dlk_error text;
	va_list ap;

	va_start(ap, fmt);
	describe(&text, sec, name, fmt, ap);
	va_end(ap);
	dlk_warn(b, dlk_opt_line(sec, name), "%s", text.text);
}

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text);
}

int dlk_opt_duration(struct dlk_build *b, cfg_t *sec, const char *name,
		     uint32_t min, uint32_t max, uint32_t *out)
{
	const char *text = dlk_opt_text(sec, name);
	uint64_t ms = 0;
	int ret;

	if (!text)
		return 0;
	ret = dlk_duration(text, &ms);
	if (ret == -EINVAL && is_number(text))
		return dlk_opt_fail(b, sec, name,
				    "\"%.200s\" has no unit (write \"%.200ss\" "
				    "for seconds; ms, m and h are the others)",
				    text, text);
	if (ret == -EINVAL)
		return dlk_opt_fail(
			b, sec, name,
			"\"%.200s\" is not a duration (a whole number with ms, "
			"s, m or h, such as \"30s\")",
			text);
	if (ret || ms < min || ms > max)
		return dlk_opt_fail(b, sec, name,
				    "\"%.200s\" is out of range (%s to %s)",
				    text, dlk_span(min).text,
				    dlk_span(max).text);
	*out = (uint32_t)ms;
	return 0;
}

int dlk_opt_number(struct dlk_build *b, cfg_t *sec, const char *name,
		   unsigned max, unsigned *out)
{
	const char *text = dlk_opt_text(sec, name);
	unsigned long n;

	if (!text)
		return 0;
	/* Nine digits always fit. */
	if (!is_number(text) || strlen(text) > 9 ||
	    (n = strtoul(text, NULL, 10)) > max)
		return dlk_opt_fail(b, sec, name,
				    "\"%.200s\" is not a number from 0 to %u",
				    text, max);
	*out = (unsigned)n;
	return 0;
}

int dlk_opt_bool(struct dlk_build *b, cfg_t *sec, const char *name, bool *out)
{
	const char *text = dlk_opt_text(sec, name);
	int value;

	if (!text)
		return 0;
	value = cfg_parse_boolean(text);
	if (value < 0)
		return dlk_opt_fail(b, sec, name,
				    "\"%.200s\" is neither true nor false",
				    text);
	*out = value;
	return 0;
}

static void list_words(char *buf, size_t size, const char *const words[])
{
	size_t n = 0;

	buf[0] = '\0';
	for (int i = 0; words[i] && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s\"%s\"",
				      i ? ", " : "", words[i]);
}

int dlk_opt_choice(struct dlk_build *b, cfg_t *sec, const char *name,
		   const char *const words[], unsigned *out)
{
	const char *text = dlk_opt_text(sec, name);
	char allowed[128];

	if (!text)
		return 0;
	for (unsigned i = 0; words[i]; i++) {
		if (!strcmp(text, words[i])) {
			*out = i;
			return 0;
		}
	}
	list_words(allowed, sizeof(allowed), words);
	return dlk_opt_fail(b, sec, name, "\"%.200s\" is not one of %s", text,
			    allowed);
}
