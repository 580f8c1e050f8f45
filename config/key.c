/* SPDX-License-Identifier: MIT */
/*
 * From a path to its key in Redis and back.
 *
 *  1. Two paths MUST NOT share a key, where the template names the path; but
 *     the two spellings of a rule's prefix (match.c) are one path.  Nor two
 *     inodes, where it names the inode.
 *  2. The way back accepts a key if and only if its path gives that key.
 *  3. No key holds '{' or '}', so "{KEY}%q" is in the hash slot of KEY.
 *  4. No KEY ends in "%rec", or begins as dlock's own keys do.  A '%' of a path
 *     begins a %XX; templates whose own '%' could are refused.
 *
 * Pure: no I/O, no allocation, no buffer of its own (signal stacks are small).
 */
#include <errno.h>
#include <string.h>

#include "config/internal.h"

enum piece {
	PIECE_END,
	PIECE_BYTE,
	PIECE_PATH,
	PIECE_REST,
	PIECE_INODE,
	PIECE_BAD
};

/* Bytes go into buf or, on the way back, are compared with `expect`. */
struct sink {
	char *buf;
	const char *expect;
	size_t size, len;
	bool full;
};

static void put_bytes(struct sink *s, const char *bytes, size_t n)
{
	if (n > s->size - s->len ||
	    (s->expect && memcmp(s->expect + s->len, bytes, n) != 0)) {
		s->full = true;
		return;
	}
	if (s->buf)
		memcpy(s->buf + s->len, bytes, n);
	s->len += n;
}

static void put(struct sink *s, char c)
{
	put_bytes(s, &c, 1);
}

static ssize_t finish(struct sink *s)
{
	put_bytes(s, "", 1);
	if (s->full)
		return -ENAMETOOLONG;
	return (ssize_t)s->len - 1;
}

static bool is_special(unsigned char c)
{
	return c < 0x20 || c == 0x7f || c == '%' || c == '{' || c == '}';
}

static void put_escaped(struct sink *s, const char *bytes, size_t len)
{
	static const char hex[] = "0123456789ABCDEF";
	const char *end = bytes + len;

	while (bytes < end && !s->full) {
		const char *plain = bytes;
		unsigned char c;

		while (bytes < end && !is_special((unsigned char)*bytes))
			bytes++;
		put_bytes(s, plain, (size_t)(bytes - plain));
		if (bytes == end)
			return;
		c = (unsigned char)*bytes++;
		put_bytes(s, (char[]){ '%', hex[c >> 4], hex[c & 15] }, 3);
	}
}

static size_t escaped_len(const char *bytes, size_t len)
{
	size_t i, n = len;

	for (i = 0; i < len; i++) {
		if (is_special((unsigned char)bytes[i]))
			n += 2;
	}
	return n;
}

/* Take one piece off the template; a PIECE_BYTE is left in *byte. */
static enum piece next_piece(const char **t, char *byte)
{
	if (!**t)
		return PIECE_END;
	*byte = *(*t)++;
	if (*byte != '%')
		return PIECE_BYTE;
	switch (*(*t)++) {
	case 'p':
		return PIECE_PATH;
	case 'r':
		return PIECE_REST;
	case 'i':
		return PIECE_INODE;
	case '%':
		return PIECE_BYTE;
	default:
		(*t)--; /* the template may end here */
		return PIECE_BAD;
	}
}

static bool has_piece(const char *key, enum piece wanted)
{
	enum piece piece;
	char c;

	while ((piece = next_piece(&key, &c)) != PIECE_END) {
		if (piece == wanted)
			return true;
	}
	return false;
}

bool dlk_key_by_inode(const char *key)
{
	return has_piece(key, PIECE_INODE);
}

bool dlk_key_tells_path(const char *key)
{
	return has_piece(key, PIECE_PATH) || has_piece(key, PIECE_REST);
}

static void put_key(struct sink *s, const struct dlk_rule *rule,
		    const struct dlk_below *below, const char *inode)
{
	const char *t = rule->key;
	enum piece piece;
	char c;

	while (!s->full && *t) {
		size_t n = strcspn(t, "%");

		put_bytes(s, t, n);
		t += n;
		piece = next_piece(&t, &c);
		if (piece == PIECE_PATH)
			put_escaped(s, rule->prefix, dlk_rule_base(rule));
		if (piece == PIECE_PATH || piece == PIECE_REST)
			put_escaped(s, below->text, below->len);
		else if (piece == PIECE_INODE)
			put_escaped(s, inode, strlen(inode));
		else if (piece == PIECE_BYTE)
			put(s, c);
	}
}

/*
 * The glob of the pieces up to `end` (NULL: all); `rooted`: that of a path begins
 * with its slash.
 */
static ssize_t put_glob(struct sink *s, const char *t, const char *end,
			bool rooted)
{
	enum piece piece;
	char c;

	while (t != end && (piece = next_piece(&t, &c)) != PIECE_END) {
		if (rooted && piece == PIECE_PATH)
			put(s, '/');
		if (piece != PIECE_BYTE)
			c = '*';
		else if (strchr("*?[]\\^", c))
			put(s, '\\');
		put(s, c);
	}
	return finish(s);
}

/* Can the pieces up to `end` (NULL: all) be this text? */
static bool can_be(const char *t, const char *end, const char *text)
{
	char glob[2 * DLK_TEMPLATE_MAX + 1];
	struct sink s = { .buf = glob, .size = sizeof(glob) };

	return put_glob(&s, t, end, true) >= 0 &&
	       dlk_glob(glob, text, strlen(text));
}

/* Can what these pieces make begin with this text? */
static bool can_begin(const char *t, const char *text)
{
	enum piece piece = PIECE_BYTE;
	char c;

	while (*text && (piece = next_piece(&t, &c)) == PIECE_BYTE) {
		if (*text++ != c)
			return false;
	}
	return !*text || piece == PIECE_REST;
}

/* At each '%' of the template's own: what stands before it, and after? */
static const char *check_own_percent(const char *key)
{
	const char *t = key, *at = key;
	enum piece piece;
	char c;

	for (; (piece = next_piece(&t, &c)) != PIECE_END; at = t) {
		if (piece != PIECE_BYTE || c != '%')
			continue;
		if (can_be(t, NULL, "rec"))
			return "can make a key that ends in \"%rec\", as those "
			       "of record locks do";
		if (can_be(key, at, "dlock") &&
		    (can_begin(t, "wait:") || can_begin(t, "wake:") ||
		     can_begin(t, "run:") || can_be(t, NULL, "fleet")))
			return "can make a key of dlock's own "
			       "(\"dlock%wait:\", \"dlock%wake:\", "
			       "\"dlock%run:\", \"dlock%fleet\")";
	}
	return NULL;
}

const char *dlk_key_check(const char *key)
{
	const char *whole = key;
	enum piece piece;
	char c;

	if (!*key)
		return "is empty";
	if (strlen(key) > DLK_TEMPLATE_MAX)
		return "is longer than 1024 bytes";
	if (dlk_key_by_inode(key) && dlk_key_tells_path(key))
		return "holds %i beside %p or %r (a file is known by its inode "
		       "or by its name)";
	while ((piece = next_piece(&key, &c)) != PIECE_END) {
		if (piece == PIECE_BAD)
			return "holds a '%' that is not %p, %r, %i or %%";
		if (c == '{' || c == '}')
			return "holds a brace (dlock's own keys use them as "
			       "hash tags)";
		if ((unsigned char)c < 0x20 || c == 0x7f)
			return "holds a control byte";
	}
	return check_own_percent(whole);
}

ssize_t dlk_key_expand(const struct dlk_rule *rule, const char *path,
		       size_t len, const char *inode, char *key, size_t size)
{
	struct sink s = { .buf = key, .size = size };
	struct dlk_below below;

	if (!dlk_rule_below(rule, path, len, &below) ||
	    (!inode && has_piece(rule->key, PIECE_INODE)))
		return -EINVAL;
	put_key(&s, rule, &below, inode ?: "");
	return finish(&s);
}

ssize_t dlk_key_glob(const struct dlk_rule *rule, char *glob, size_t size)
{
	struct sink s = { .buf = glob, .size = size };

	return put_glob(&s, rule->key, NULL, false);
}

/* Undo put_escaped(); a wrong escape is found by the comparison later. */
static void put_decoded(struct sink *s, const char *key, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		int value = 0, k;

		if (key[i] != '%' || len - i < 3) {
			put(s, key[i]);
			continue;
		}
		for (k = 1; k <= 2; k++) {
			char c = key[i + (size_t)k];

			value = value * 16 +
				(c <= '9' ? c - '0' : c - 'A' + 10);
		}
		put(s, (char)value);
		i += 2;
	}
}

/* Where the path's first trace is in a key, and how long it is. */
struct trace {
	size_t at, len;
	bool rest; /* %r: the prefix' part is missing */
};

/*
 * Every placeholder's length follows from that of the escaped path, so the
 * key's length alone says how long they are, even for "%r:%r".
 */
static bool find_trace(const struct dlk_rule *rule, size_t key_len,
		       struct trace *trace)
{
	size_t base = escaped_len(rule->prefix, dlk_rule_base(rule));
	size_t fixed = 0, n = 0, n_rest = 0, whole;
	const char *t = rule->key;
	enum piece piece;
	char c;

	while ((piece = next_piece(&t, &c)) != PIECE_END) {
		if (piece == PIECE_BYTE) {
			fixed++;
			continue;
		}
		n_rest += piece == PIECE_REST;
		if (n++ == 0) {
			trace->at = fixed;
			trace->rest = piece == PIECE_REST;
		}
	}
	whole = key_len + n_rest * base;
	if (!n || whole < fixed || (whole - fixed) % n)
		return false;
	whole = (whole - fixed) / n;
	trace->len = trace->rest ? whole - base : whole;
	return whole >= base && trace->at + trace->len <= key_len;
}

static ssize_t decode(const struct dlk_rule *rule, const char *key, size_t len,
		      struct sink *s)
{
	struct trace trace = { 0 };

	if (dlk_key_by_inode(rule->key))
		return -EINVAL;
	if (dlk_key_tells_path(rule->key)) {
		if (!find_trace(rule, len, &trace))
			return -EINVAL;
		if (trace.rest)
			put_bytes(s, rule->prefix, dlk_rule_base(rule));
		put_decoded(s, key + trace.at, trace.len);
	} else {
		/* One key for all: known only if the rule is one file. */
		if (dlk_rule_is_directory(rule))
			return -EINVAL;
		put_bytes(s, rule->prefix, rule->prefix_len);
	}
	return finish(s);
}

ssize_t dlk_key_to_path(const struct dlk_rule *rule, const char *key,
			size_t len, char *path, size_t size)
{
	struct sink s = { .buf = path, .size = size };
	struct sink proof = { .expect = key, .size = len };
	ssize_t n = decode(rule, key, len, &s);
	struct dlk_below below;

	if (n < 0)
		return n;
	if (!dlk_rule_below(rule, path, (size_t)n, &below) ||
	    memchr(path, '\0', (size_t)n))
		return -EINVAL;
	put_key(&proof, rule, &below, "");
	return proof.full || proof.len != len ? -EINVAL : n;
}
