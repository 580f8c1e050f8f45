/* SPDX-License-Identifier: MIT */
/*
 * What others write and we read a word at a time: tokens, the kernel's lock lines
 * and mounts, numbers.  The first byte chooses.
 */
#include <errno.h>
#include <sys/file.h>

#include "model/fdinfo.h"
#include "model/mountinfo.h"
#include "model/text.h"
#include "model/token.h"
#include "tests/fuzz/fuzz.h"

/* Refused, or it is the same when it has been written and read again. */
static void token(const char *box, size_t n)
{
	char text[2 * DLK_TOKEN_MAX], again[2 * DLK_TOKEN_MAX];
	struct dlk_token t, back;
	ssize_t len;

	if (!dlk_token_parse(box, n, &t))
		return;
	len = dlk_token_format(&t, text, sizeof(text));
	must(len > 0 && dlk_token_parse(text, (size_t)len, &back));
	must(dlk_token_format(&back, again, sizeof(again)) == len);
	must(strcmp(text, again) == 0);
}

static void fdinfo(const char *box, size_t n)
{
	struct dlk_lock_line l;
	const int mode = dlk_fdinfo_flock(box);

	(void)n;
	must(mode == LOCK_UN ||
	     (strstr(box, "lock:") && strstr(box, "FLOCK ")));
	must(mode != LOCK_EX || strstr(box, "WRITE"));
	must(mode != LOCK_SH || strstr(box, "READ"));
	if (dlk_fdinfo_lock(box, DLK_LINE_FLOCK, &l))
		must(mode == (l.write ? LOCK_EX : LOCK_SH));
}

static void locks(const char *box, size_t n)
{
	struct dlk_lock_line l;

	(void)n;
	if (dlk_lock_line(box, &l) && l.kind == DLK_LINE_FLOCK)
		must(strstr(box, "FLOCK "));
}

static void mounts(const char *box, size_t n)
{
	struct dlk_mount_line m;

	(void)n;
	dlk_mount_line(box, &m);
	dlk_mount_option(box, "nolock");
}

/* Against strtoull(3), which is shown the digits only. */
static void number(char *box, unsigned base)
{
	uint64_t got = 0, want;
	const char *end = dlk_number(box, base, &got);
	const size_t digits =
		strspn(box, base == 10 ? "0123456789" : "0123456789abcdef");

	must(!end || end == box + digits);
	box[digits] = '\0';
	errno = 0;
	want = strtoull(box, NULL, (int)base);
	must((end != NULL) == (digits > 0 && errno == 0));
	must(!end || got == want);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	char *box;

	if (n < 1)
		return 0;
	box = boxed(bytes + 1, n - 1);
	switch (bytes[0] % 6) {
	case 0:
		token(box, n - 1);
		break;
	case 1:
		fdinfo(box, n - 1);
		break;
	case 2:
		locks(box, n - 1);
		break;
	case 3:
		mounts(box, n - 1);
		break;
	default:
		number(box, bytes[0] % 6 == 4 ? 10 : 16);
	}
	free(box);
	return 0;
}
