/* SPDX-License-Identifier: MIT */
/* Sizes, widths and wrapped lines; see screen.h. */
#include "tools/screen.h"

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "model/text.h"

enum { COLUMNS = 80, ROWS = 24 }; /* of one that does not say */

/* False: it is no terminal. */
static bool measure(FILE *f, struct winsize *size)
{
	*size = (struct winsize){ 0 };
	if (!isatty(fileno(f)))
		return false;
	if (ioctl(fileno(f), TIOCGWINSZ, size))
		*size = (struct winsize){ 0 };
	return true;
}

size_t screen_columns(FILE *f)
{
	struct winsize size;

	if (!measure(f, &size))
		return 0;
	if (!size.ws_col)
		size.ws_col = COLUMNS;
	return size.ws_col > 1 ? size.ws_col - 1U : 1;
}

size_t screen_rows(FILE *f)
{
	struct winsize size;

	if (!measure(f, &size))
		return 0;
	return size.ws_row ? size.ws_row : ROWS;
}

/*
 * Of a character, as terminals show it: two columns of most East Asian ones,
 * none of an accent.  The program itself has no locale, so that what it prints
 * does not depend on one.
 */
static size_t char_width(uint32_t code)
{
	static locale_t utf8;
	locale_t old;
	int n;

	if (code < 0x300)
		return 1;
	if (!utf8)
		utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
	if (!utf8)
		return 1;
	old = uselocale(utf8);
	n = wcwidth((wchar_t)code);
	uselocale(old);
	return n < 0 ? 1 : (size_t)n;
}

size_t screen_first(const char *text, size_t *len)
{
	uint32_t code = 0;

	*len = 1;
	if (!(*text & 0x80))
		return 1;
	*len = dlk_utf8(text, strlen(text), &code);
	if (!*len)
		*len = 1;
	return char_width(code);
}

size_t screen_width(const char *text)
{
	size_t n = 0, len;

	for (; *text && !(*text & 0x80); text++)
		n++;
	for (; *text; text += len)
		n += screen_first(text, &len);
	return n;
}

/* --- wrapped -------------------------------------------------------------- */

static void begin_look(FILE *f, const char *look)
{
	if (*look)
		fprintf(f, "\033[%sm", look);
}

static void end_look(FILE *f, const char *look)
{
	if (*look)
		fputs("\033[0m", f);
}

static size_t word_width(const char *text, size_t bytes)
{
	size_t n = 0, len;

	for (size_t i = 0; i < bytes; i += len)
		n += screen_first(text + i, &len);
	return n;
}

void screen_wrap(FILE *f, const char *text, size_t at, size_t indent,
		 size_t columns, const char *look)
{
	size_t gap = 0;

	begin_look(f, look);
	while (*text) {
		size_t bytes = strcspn(text, " ");
		size_t wide = word_width(text, bytes);

		if (columns && gap && at + gap + wide > columns) {
			end_look(f, look);
			fprintf(f, "\n%*s", (int)indent, "");
			begin_look(f, look);
			at = indent;
		} else {
			fprintf(f, "%*s", (int)gap, "");
			at += gap;
		}
		fwrite(text, 1, bytes, f);
		at += wide;
		gap = strspn(text + bytes, " ");
		text += bytes + gap;
	}
	end_look(f, look);
	fputc('\n', f);
}
