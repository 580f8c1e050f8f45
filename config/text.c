/* SPDX-License-Identifier: MIT */
/*
 * The text before libconfuse sees it.
 *
 * libconfuse 3.3 counts two lines too many for each comment, takes a comment
 * inside a list for an error and a section that is never closed for none,
 * drops a bare '*' without a word, cuts a string at "\0", expands an unset
 * ${VAR} to nothing (a prefix "${DIR}/" is then "/"), and echoes a backslash
 * at the end of the text to standard output.
 * A guest in somebody else's process can afford none of that.  So:
 *
 *  1. Comments become blanks; the line of every other byte is unchanged.
 *  2. What would be misread is refused, with the line where it begins.
 *  3. The text ends in a newline, which no rule of its scanner echoes.
 *  4. In secure mode no ${VAR} is left for it to expand.
 *  5. An option given twice is refused: the last one would win without a word,
 *     and of an empty list nobody is called (syntax.c).
 *
 * The token rules are those of libconfuse's lexer.l, so that a quote or a
 * brace is seen here if and only if it is seen there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/internal.h"

/* An option's name, if a '=' comes after it. */
struct name {
	size_t at, len;
	int line;
};

/* Those that one section has, or the top level: more than there are. */
enum { NAMES_MAX = 32 };

struct names {
	struct name v[NAMES_MAX];
	unsigned n;
};

struct scan {
	struct dlk_build *b;
	char *s;
	size_t i, len;
	int line;
	int depth;
	struct name last;      /* the word or string read last */
	bool appends;          /* a '+' comes between it and the '=' */
	struct names given[2]; /* at the top level; in the section */
};

static bool at(const struct scan *sc, const char *word)
{
	size_t n = strlen(word);

	return sc->len - sc->i >= n && !memcmp(sc->s + sc->i, word, n);
}

static void step(struct scan *sc)
{
	if (sc->i >= sc->len)
		return;
	if (sc->s[sc->i++] == '\n')
		sc->line++;
}

static void blank(struct scan *sc)
{
	if (sc->s[sc->i] != '\n')
		sc->s[sc->i] = ' ';
	step(sc);
}

static int line_comment(struct scan *sc)
{
	while (sc->i < sc->len && sc->s[sc->i] != '\n')
		blank(sc);
	return 0;
}

static int block_comment(struct scan *sc)
{
	int line = sc->line;

	blank(sc);
	blank(sc);
	while (!at(sc, "*/")) {
		if (sc->i >= sc->len)
			return dlk_fail(sc->b, line,
					"this comment is not closed (a '*' and "
					"a '/' end it)");
		blank(sc);
	}
	blank(sc);
	blank(sc);
	return 0;
}

static size_t name_length(const char *s, size_t len)
{
	size_t i = 0;

	while (i < len &&
	       (s[i] == '_' || (s[i] >= '0' && s[i] <= '9') ||
		(s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= 'a' && s[i] <= 'z')))
		i++;
	return i;
}

/* At the name of a closed ${NAME} or ${NAME:-default}: set, or defaulted? */
static int check_variable(struct scan *sc, const char *name, size_t len)
{
	size_t n = name_length(name, len);
	char buf[128];

	if (!n || n >= sizeof(buf) ||
	    (n < len && (len - n < 2 || memcmp(name + n, ":-", 2) != 0)))
		return dlk_fail(sc->b, sc->line,
				"\"${%.*s}\" is not a variable (write ${NAME} "
				"or ${NAME:-default})",
				(int)(len > 100 ? 100 : len), name);
	memcpy(buf, name, n);
	buf[n] = '\0';
	if (n == len && !getenv(buf))
		return dlk_fail(sc->b, sc->line,
				"${%s} is not set in the environment (write "
				"${%s:-} if it may be empty)",
				buf, buf);
	return 0;
}

static int variable(struct scan *sc)
{
	const char *name = sc->s + sc->i + 2;
	size_t rest = sc->len - sc->i - 2;
	const char *end = memchr(name, '}', rest);
	const char *eol = memchr(name, '\n', rest);
	int ret;

	if (sc->b->secure)
		return dlk_fail(sc->b, sc->line,
				"\"${\" is not allowed in a program that runs "
				"with another's rights: the environment is the "
				"caller's (write the value)");
	if (!end || (eol && eol < end))
		return dlk_fail(sc->b, sc->line,
				"\"${\" is not closed by '}' on its line");
	ret = check_variable(sc, name, (size_t)(end - name));
	sc->i = (size_t)(end + 1 - sc->s);
	return ret;
}

/* A backslash and what belongs to it; "\0" and "\x0" would end the string. */
static int escape(struct scan *sc)
{
	size_t i = sc->i + 1, n = 0, max = 3;
	const char *digits = "01234567";
	bool value = false;

	if (i < sc->len && sc->s[i] == 'x') {
		digits = "0123456789abcdefABCDEF";
		max = 2;
		i++;
	}
	for (; n < max && i + n < sc->len; n++) {
		char c = sc->s[i + n];

		if (!c || !strchr(digits, c))
			break;
		value |= c != '0';
	}
	if (n && !value)
		return dlk_fail(sc->b, sc->line,
				"a string cannot hold a NUL byte (\"\\0\")");
	step(sc);
	step(sc);
	return 0;
}

/* What was read from there on. */
static void remember(struct scan *sc, size_t at)
{
	sc->last = (struct name){ at, sc->i - at, sc->line };
}

static int string(struct scan *sc)
{
	char quote = sc->s[sc->i];
	int line = sc->line, ret = 0;
	size_t begin = sc->i + 1;

	step(sc);
	while (!ret && sc->i < sc->len && sc->s[sc->i] != quote) {
		if (quote == '"' && sc->s[sc->i] == '\\') {
			ret = escape(sc);
		} else if (quote == '"' && at(sc, "${")) {
			ret = variable(sc);
		} else {
			if (sc->s[sc->i] == '\\')
				step(sc);
			step(sc);
		}
	}
	if (ret)
		return ret;
	if (sc->i >= sc->len)
		return dlk_fail(
			sc->b, line,
			"the string that begins here is not closed (by %c)",
			quote);
	remember(sc, begin);
	step(sc);
	return 0;
}

static const struct name *find_name(const struct scan *sc,
				    const struct names *names,
				    const struct name *name)
{
	for (unsigned i = 0; i < names->n; i++) {
		const struct name *v = &names->v[i];

		if (v->len == name->len &&
		    !memcmp(sc->s + v->at, sc->s + name->at, v->len))
			return v;
	}
	return NULL;
}

/*
 * At a '='.  What escapes or a variable would make of a name is libconfuse's to
 * know; nobody needs them there.  (Where there is no room left, some of the names
 * are of no option, which it refuses.)
 */
static int assign(struct scan *sc)
{
	struct names *names = &sc->given[sc->depth > 0];
	const struct name *name = &sc->last;
	const struct name *given = find_name(sc, names, name);
	const char *text = sc->s + name->at;
	int len = (int)(name->len > 100 ? 100 : name->len);

	if (memchr(text, '\\', name->len) || memchr(text, '$', name->len))
		return dlk_fail(sc->b, name->line,
				"an option's name holds a '\\' or a '$' (write "
				"it as it is)");
	if (given && !sc->appends)
		return dlk_fail(sc->b, sc->line,
				"option '%.*s' is given twice (line %d has it "
				"already)",
				len, text, given->line);
	if (!given && names->n < NAMES_MAX)
		names->v[names->n++] = *name;
	sc->appends = false;
	step(sc);
	return 0;
}

/* A brace at the top level opens a section: syntax.c wants its line. */
static int open_brace(struct scan *sc)
{
	struct dlk_build *b = sc->b;

	if (sc->depth++ == 0) {
		sc->given[1].n = 0;
		if (b->n_sections == DLK_SECTIONS_MAX)
			return dlk_fail(b, sc->line, "more than %d sections",
					DLK_SECTIONS_MAX);
		b->section_lines[b->n_sections++] = (unsigned)sc->line;
	}
	step(sc);
	return 0;
}

static int word_or_sign(struct scan *sc)
{
	static const char special[] = " #\"'\t\n\r={}()+,*";
	size_t begin = sc->i;
	char c = sc->s[begin];

	if (c == '*' || (c == '+' && !at(sc, "+=")))
		return dlk_fail(sc->b, sc->line,
				"'%c' outside quotes (write \"...\")", c);
	if (c == '}' && sc->depth > 0)
		sc->depth--;
	do {
		step(sc);
	} while (!strchr(special, c) && sc->i < sc->len &&
		 !strchr(special, sc->s[sc->i]));
	sc->appends = c == '+';
	if (!strchr(special, c))
		remember(sc, begin);
	return 0;
}

static int bare_variable(struct scan *sc)
{
	size_t begin = sc->i;
	int ret = variable(sc);

	remember(sc, begin);
	return ret;
}

static int token(struct scan *sc)
{
	char c = sc->s[sc->i];

	if (c == '#' || at(sc, "//"))
		return line_comment(sc);
	if (at(sc, "/*"))
		return block_comment(sc);
	if (c == '"' || c == '\'')
		return string(sc);
	if (at(sc, "${"))
		return bare_variable(sc);
	if (c == '{')
		return open_brace(sc);
	if (c == '=')
		return assign(sc);
	return word_or_sign(sc);
}

int dlk_text_prepare(struct dlk_build *b, const char *text, size_t len,
		     char **out)
{
	struct scan sc = { .b = b, .len = len + 1, .line = 1 };
	int ret = 0;

	if (len > DLK_FILE_MAX)
		return dlk_fail(b, 0, "larger than 1 MiB");
	if (memchr(text, '\0', len))
		return dlk_fail(b, 0, "holds a NUL byte: not a text");
	sc.s = malloc(len + 2);
	if (!sc.s)
		return dlk_no_memory(b);
	memcpy(sc.s, text, len);
	memcpy(sc.s + len, "\n", 2);
	while (!ret && sc.i < sc.len)
		ret = token(&sc);
	if (!ret && sc.depth)
		ret = dlk_fail(
			b, (int)b->section_lines[b->n_sections - 1],
			"the section that begins here is not closed (by '}')");
	if (ret) {
		explicit_bzero(sc.s, sc.len);
		free(sc.s);
		return ret;
	}
	*out = sc.s;
	return 0;
}
