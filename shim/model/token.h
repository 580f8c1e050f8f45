/* SPDX-License-Identifier: MIT */
/*
 * The token: the unique value of a lease, readable for diagnosis.
 *
 *	dlock1 RANDOM HOST FILE SINCE PID HOSTNAME COMMAND [PATH]
 *
 * Eight words or nine, one space between them.  RANDOM is 128 bits in hex; HOST
 * the boot id (32 hex digits) and, if configured, ":" and the host_id; FILE
 * "dev:ino:handle" in hex ("-" for no handle) of the file that is locked in
 * the kernel; SINCE the 20-digit CLOCK_BOOTTIME nanoseconds of the kernel's
 * grant; PID decimal; PATH the file's as the holder knew it then, where the key
 * does not tell it, and "..." and its end if it is long.  In HOST, HOSTNAME,
 * COMMAND and PATH every byte outside 0x21-0x7e, and '%', stands as %XX; an
 * empty word is "-", a lone '-' is "%2D".
 *
 * HOST and FILE together say whose kernel lock proves a token dead (DESIGN
 * L3), so the two are compared as bytes, never parsed.
 *
 * Pure: no I/O, no allocation, thread- and signal-safe.
 */
#ifndef DLK_TOKEN_H
#define DLK_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	DLK_TOKEN_MAX = 768,
	DLK_RANDOM_LEN = 32,
	DLK_WORD_MAX = 192, /* of HOST, FILE, HOSTNAME and COMMAND each */
	DLK_WORD_PATH_MAX = 384,
};

/* The `since` of a claim, which is of no kernel lock yet (lease/queue.h). */
#define DLK_NEVER "18446744073709551615"
/* Of what was released and stays for hold_at_least: it is nobody's. */
#define DLK_STAYS "18446744073709551614"
/* From here on a `since` is of no kernel lock. */
#define DLK_NO_LOCK_NS (UINT64_MAX - 1)

struct dlk_token {
	char random[DLK_RANDOM_LEN + 1];
	char host[DLK_WORD_MAX];
	char file[DLK_WORD_MAX];
	uint64_t since_ns;
	uint32_t pid;
	char hostname[DLK_WORD_MAX];  /* escaped, as in the token */
	char command[DLK_WORD_MAX];   /* escaped, as in the token */
	char path[DLK_WORD_PATH_MAX]; /* the same; "" for none */
};

/*
 * Write the token's text and a NUL; its length, or -ENAMETOOLONG.  A path that
 * there is no room for is left out.
 */
ssize_t dlk_token_format(const struct dlk_token *t, char *buf, size_t size);

/* Read a token's text; false if it is not one of ours. */
bool dlk_token_parse(const char *text, size_t len, struct dlk_token *t);

/*
 * Two texts: are they of one host and file, and theirs of a lock that the kernel
 * has granted, which no claim is?  And is theirs older?
 */
bool dlk_token_same_place(const char *ours, size_t ours_len, const char *theirs,
			  size_t theirs_len, bool *older);

/* Of a token's text: where its DLK_RANDOM_LEN digits are, which name the owner. */
static inline const char *dlk_token_digits(const char *text)
{
	return text + sizeof("dlock1");
}

/* And the 20 of its `since`. */
char *dlk_token_since(char *text);

/* 16 random bytes to hex. */
void dlk_token_random(struct dlk_token *t, const uint8_t bytes[16]);

/* Escape `len` bytes into a word; cut at size - 1, never inside a %XX. */
void dlk_word(char *word, size_t size, const char *bytes, size_t len);

/* The same of a path, of which the end is kept: "...tail". */
void dlk_word_path(char *word, size_t size, const char *path, size_t len);

/* The bytes that a word stands for; their number (at most size - 1). */
size_t dlk_unword(const char *word, char *bytes, size_t size);

#endif
