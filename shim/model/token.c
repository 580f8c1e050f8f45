/* SPDX-License-Identifier: MIT */
/* The token of a lease; see token.h. */
#include "model/token.h"

#include <errno.h>
#include <string.h>

#include "model/text.h"

#define MAGIC "dlock1"
enum { SINCE_DIGITS = 20 };

static bool plain(unsigned char c)
{
	return c > 0x20 && c < 0x7f && c != '%';
}

void dlk_word(char *word, size_t size, const char *bytes, size_t len)
{
	static const char hex[] = "0123456789ABCDEF";
	const bool dash = len == 1 && bytes[0] == '-';
	size_t at = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)bytes[i];
		bool as_is = plain(c) && !dash;

		if (at + (as_is ? 1 : 3) >= size)
			break;
		if (as_is) {
			word[at++] = (char)c;
			continue;
		}
		word[at++] = '%';
		word[at++] = hex[c >> 4];
		word[at++] = hex[c & 15];
	}
	if (at == 0 && size > 1)
		word[at++] = '-';
	word[at] = '\0';
}

static size_t word_len(const char *bytes, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += plain((unsigned char)bytes[i]) ? 1 : 3;
	return n;
}

void dlk_word_path(char *word, size_t size, const char *path, size_t len)
{
	const char dots[] = "...";
	const size_t more = sizeof(dots) - 1;
	size_t n = word_len(path, len);

	if (n < size) {
		dlk_word(word, size, path, len);
		return;
	}
	for (; len && n + more >= size; path++, len--)
		n -= word_len(path, 1);
	memcpy(word, dots, more);
	dlk_word(word + more, size - more, path, len);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

size_t dlk_unword(const char *word, char *bytes, size_t size)
{
	size_t at = 0;

	if (strcmp(word, "-") == 0)
		word = "";
	while (*word && at + 1 < size) {
		int high = -1, low = -1;

		if (*word == '%') {
			high = hex_digit(word[1]);
			low = high < 0 ? -1 : hex_digit(word[2]);
		}
		if (low >= 0) {
			bytes[at++] = (char)(high << 4 | low);
			word += 3;
		} else {
			bytes[at++] = *word++;
		}
	}
	bytes[at] = '\0';
	return at;
}

char *dlk_token_since(char *text)
{
	char *at = text + sizeof("dlock1") + DLK_RANDOM_LEN;

	for (int spaces = 0; *at && spaces < 3; at++)
		spaces += *at == ' ';
	return at;
}

void dlk_token_random(struct dlk_token *t, const uint8_t bytes[16])
{
	struct dlk_text text;

	dlk_text_init(&text, t->random, sizeof(t->random));
	dlk_text_hex_bytes(&text, bytes, 16);
}

ssize_t dlk_token_format(const struct dlk_token *t, char *buf, size_t size)
{
	struct dlk_text out;

	dlk_text_init(&out, buf, size);
	dlk_text_strs(&out, MAGIC " ", t->random, " ", t->host, " ", t->file,
		      " ", NULL);
	dlk_text_u64(&out, t->since_ns, SINCE_DIGITS);
	dlk_text_str(&out, " ");
	dlk_text_u64(&out, t->pid, 0);
	dlk_text_strs(&out, " ", t->hostname, " ", t->command, NULL);
	if (t->path[0] && out.len + 1 + strlen(t->path) < size) {
		dlk_text_strs(&out, " ", t->path, NULL);
	}
	return out.cut ? -ENAMETOOLONG : (ssize_t)out.len;
}

/* The next word of [*at, end) into `word`; false when there is none. */
static bool next_word(const char **at, const char *end, char *word, size_t size)
{
	const char *from = *at, *p = from;

	while (p<end && * p> 0x20 && *p < 0x7f)
		p++;
	if (p == from || (size_t)(p - from) >= size || (p < end && *p != ' '))
		return false;
	memcpy(word, from, (size_t)(p - from));
	word[p - from] = '\0';
	*at = p < end ? p + 1 : p;
	return true;
}

static bool next_number(const char **at, const char *end, size_t width,
			uint64_t *n)
{
	char word[24];
	const char *stop;

	if (!next_word(at, end, word, sizeof(word)))
		return false;
	if (width && strlen(word) != width)
		return false;
	stop = dlk_number(word, 10, n);
	return stop && *stop == '\0';
}

bool dlk_token_parse(const char *text, size_t len, struct dlk_token *t)
{
	const char *at = text, *end = text + len;
	char magic[8];
	uint64_t pid;

	if (!next_word(&at, end, magic, sizeof(magic)) ||
	    strcmp(magic, MAGIC) != 0 ||
	    !next_word(&at, end, t->random, sizeof(t->random)) ||
	    strlen(t->random) != DLK_RANDOM_LEN ||
	    !next_word(&at, end, t->host, sizeof(t->host)) ||
	    !next_word(&at, end, t->file, sizeof(t->file)) ||
	    !next_number(&at, end, SINCE_DIGITS, &t->since_ns) ||
	    !next_number(&at, end, 0, &pid) || pid > UINT32_MAX ||
	    !next_word(&at, end, t->hostname, sizeof(t->hostname)) ||
	    !next_word(&at, end, t->command, sizeof(t->command)))
		return false;
	t->path[0] = '\0';
	if (at < end && !next_word(&at, end, t->path, sizeof(t->path)))
		return false;
	t->pid = (uint32_t)pid;
	return at == end && end[-1] != ' ';
}

bool dlk_token_same_place(const char *ours, size_t ours_len, const char *theirs,
			  size_t theirs_len, bool *older)
{
	struct dlk_token a, b;

	if (!dlk_token_parse(ours, ours_len, &a) ||
	    !dlk_token_parse(theirs, theirs_len, &b) ||
	    b.since_ns >= DLK_NO_LOCK_NS || strcmp(a.host, b.host) != 0 ||
	    strcmp(a.file, b.file) != 0)
		return false;
	*older = b.since_ns < a.since_ns;
	return true;
}
