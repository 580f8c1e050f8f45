/* SPDX-License-Identifier: MIT */
// link: tools/common_elf.c tools/json.c tools/table.c tools/screen.c tools/common_text.c
// link: tools/scan_owners.c tools/scan_places.c tools/scan_keys.c
// link: tools/scan_hash.c tools/scan_queue.c tools/common_redis.c tools/run_away.c
// link: tools/fleet.c tools/boot.c tools/scan_ask.c tools/options.c
// link: tools/lease_job.c
/*
 * The pure parts of the tools: what an ELF image tells, that no byte of a name
 * reaches a terminal or a JSON reader unescaped, who counts as an owner of a
 * shared lock or of record locks, what counts as a range, and how long a
 * renewal may take.
 */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/timeline.h"
#include "model/token.h"
#include "os/sys.h"
#include "tools/common.h"
#include "tools/fleet.h"
#include "tools/json.h"
#include "tools/lease_job.h"
#include "tools/run.h"
#include "tools/common_elf.h"
#include "tools/scan_ask.h"
#include "tools/scan_owners.h"
#include "tools/scan_places.h"
#include "tools/scan_queue.h"
#include "tools/table.h"

/* A program of the smallest: a header, PT_INTERP, PT_NOTE, their contents. */
struct program {
	Elf64_Ehdr head;
	Elf64_Phdr interp, note;
	char interp_text[32];
	unsigned char note_bytes[40];
};

static struct program make(const char *interp)
{
	struct program p = {
		.head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64,
				       ELFDATA2LSB, EV_CURRENT },
			  .e_type = ET_DYN,
			  .e_machine = EM_X86_64,
			  .e_phoff = sizeof(Elf64_Ehdr),
			  .e_phentsize = sizeof(Elf64_Phdr),
			  .e_phnum = 2 },
		.interp = { .p_type = PT_INTERP,
			    .p_offset = offsetof(struct program, interp_text) },
		.note = { .p_type = PT_NOTE,
			  .p_offset = offsetof(struct program, note_bytes),
			  .p_filesz = sizeof(p.note_bytes) },
		.note_bytes = { 4, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0 },
	};

	strcpy(p.interp_text, interp);
	p.interp.p_filesz = strlen(interp) + 1;
	if (!*interp)
		p.interp.p_type = PT_NULL;
	return p;
}

#define GLIBC "/lib64/ld-linux-x86-64.so.2"

static const struct elf_facts shim = {
	.is_elf = true,
	.class = ELFCLASS64,
	.data = ELFDATA2LSB,
	.machine = EM_X86_64,
};

static const char *refusal(const struct program *p)
{
	struct elf_facts facts;

	elf_inspect(p, sizeof(*p), &facts);
	assert_true(facts.is_elf);
	return elf_refusal(&facts, &shim);
}

static void glibc_program_is_accepted(void **state)
{
	struct program p = make(GLIBC);

	(void)state;
	assert_null(refusal(&p));
}

static void musl_program_is_refused(void **state)
{
	struct program p = make("/lib/ld-musl-x86_64.so.1");

	(void)state;
	assert_non_null(strstr(refusal(&p), "glibc"));
}

static void static_program_is_refused(void **state)
{
	struct program p = make("");

	(void)state;
	assert_non_null(strstr(refusal(&p), "statically linked"));
}

static void other_machine_is_refused(void **state)
{
	struct program p = make(GLIBC);

	(void)state;
	p.head.e_machine = EM_AARCH64;
	assert_non_null(strstr(refusal(&p), "another machine"));
}

static void go_is_told_by_its_note(void **state)
{
	struct program p = make(GLIBC);

	(void)state;
	memcpy(p.note_bytes + 12, "Go\0", 4);
	assert_non_null(strstr(refusal(&p), "Go program"));
}

/* Of two padded notes, behind one of five bytes; and cut off in its name. */
static void go_is_told_by_a_later_note(void **state)
{
	static const unsigned char five[] = { 4, 0, 0, 0, 5,   0,   0,  0,
					      3, 0, 0, 0, 'G', 'N', 'U' };
	struct program p = make(GLIBC);

	(void)state;
	memset(p.note_bytes, 0, sizeof(p.note_bytes));
	memcpy(p.note_bytes, five, sizeof(five));
	assert_null(refusal(&p));
	p.note_bytes[24] = 4;
	memcpy(p.note_bytes + 36, "Go\0", 4);
	assert_non_null(strstr(refusal(&p), "Go program"));
	p.note.p_filesz--;
	assert_null(refusal(&p));
}

static void note_that_claims_more_is_no_harm(void **state)
{
	struct program p = make(GLIBC);

	(void)state;
	memset(p.note_bytes, 0xff, sizeof(p.note_bytes));
	assert_null(refusal(&p));
	memset(p.note_bytes, 0, sizeof(p.note_bytes));
	assert_null(refusal(&p));
}

static void go_is_told_by_its_sections(void **state)
{
	struct {
		struct program p;
		char names[32];
		Elf64_Shdr sections[2];
	} f = { .p = make(GLIBC), .names = "\0.go.buildinfo" };
	struct elf_facts facts;

	(void)state;
	f.p.head.e_shoff = (size_t)((char *)f.sections - (char *)&f);
	f.p.head.e_shentsize = sizeof(Elf64_Shdr);
	f.p.head.e_shnum = 2;
	f.p.head.e_shstrndx = 0;
	f.sections[0].sh_offset = (size_t)(f.names - (char *)&f);
	f.sections[1].sh_name = 1;
	elf_inspect(&f, sizeof(f), &facts);
	assert_true(facts.go);
}

static void cut_file_reads_nothing_outside(void **state)
{
	struct program p = make(GLIBC);
	struct elf_facts facts;

	(void)state;
	for (size_t n = 0; n < offsetof(struct program, note_bytes); n++) {
		void *copy = malloc(n ? n : 1);

		assert_non_null(copy);
		memcpy(copy, &p, n);
		elf_inspect(copy, n, &facts);
		assert_true(!facts.is_elf || elf_refusal(&facts, &shim));
		free(copy);
	}
}

static void any_header_byte_may_lie(void **state)
{
	struct program p = make(GLIBC);
	struct elf_facts facts;

	(void)state;
	for (size_t i = 0; i < sizeof(p); i++) {
		struct program *copy = malloc(sizeof(p));

		assert_non_null(copy);
		*copy = p;
		((unsigned char *)copy)[i] = 0xff;
		elf_inspect(copy, sizeof(*copy), &facts);
		free(copy);
	}
}

static void other_class_and_order_are_read(void **state)
{
	unsigned char b[sizeof(Elf32_Ehdr)] = { 0x7f, 'E',        'L',
						'F',  ELFCLASS32, ELFDATA2MSB,
						1 };
	struct elf_facts facts;

	(void)state;
	b[19] = EM_PPC;
	elf_inspect(b, sizeof(b), &facts);
	assert_true(facts.is_elf);
	assert_int_equal(facts.machine, EM_PPC);
	assert_non_null(elf_refusal(&facts, &shim));
}

static void this_program_is_accepted(void **state)
{
	static char image[1 << 24];
	FILE *f = fopen("/proc/self/exe", "rb");
	struct elf_facts facts;
	size_t n;

	(void)state;
	assert_non_null(f);
	n = fread(image, 1, sizeof(image), f);
	fclose(f);
	elf_inspect(image, n, &facts);
	assert_true(facts.is_elf && !facts.damaged && !facts.go);
	assert_null(elf_refusal(&facts, &facts));
}

/* A command's words, of which there are at most 7. */
static bool goes_away(const char *command)
{
	char words[128], *argv[8] = { NULL }, *rest = words;

	strcpy(words, command);
	for (int i = 0; i < 7 && (argv[i] = strsep(&rest, " ")); i++)
		;
	return run_away(argv);
}

static void what_starts_another_program_elsewhere_is_known(void **state)
{
	static const char *const away[] = {
		"sudo job",
		"/usr/bin/sudo -E job",
		"doas job",
		"su -",
		"su - bob -c job",
		"su bob -lc job",
		"su -l bob",
		"su -c job --login",
		"su bob --log",
		"su -pl",
		"runuser -l bob",
		"ssh host job",
		"env -i job",
		"env - job",
		"systemd-run job",
		"docker exec c j",
		"systemd-run -p x job",
		"systemd-run job --scope",
		"env -u X -i job",
		"env -vi job",
		"env --ignore-env job",
		"env --unset X -C / - job",
		"env A=1 LD_PRELOAD=x.so job",
	};
	static const char *const here[] = {
		"job",
		"su bob -c job",
		"su -c -l bob",
		"su -sl bob",
		"su",
		"su bob -- -l",
		"runuser -u bob job",
		"env A=1 job",
		"flock f sudo job",
		"systemd-run --scope",
		"systemd-run -p X=Y --scope job",
		"systemd-run --unit x -dpX --sco job",
		"env job -i",
		"env -u -i job",
		"env -- A=- job -",
		"env LD_PRELOAD=/libdlock-preload.so:/x job",
		"su --command -l bob",
		"runuser -g l job",
		"sudoedit f",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(away) / sizeof(*away); i++)
		if (!goes_away(away[i]))
			fail_msg("%s", away[i]);
	for (size_t i = 0; i < sizeof(here) / sizeof(*here); i++)
		if (goes_away(here[i]))
			fail_msg("%s", here[i]);
}

static const char *shown(const char *bytes, size_t len)
{
	static char out[256];
	size_t n = tool_show(out, sizeof(out), bytes, len);

	assert_int_equal(n, strlen(out));
	return out;
}

#define SHOWN(literal) shown(literal, sizeof(literal) - 1)

static void names_are_shown_without_effect(void **state)
{
	(void)state;
	assert_string_equal(SHOWN("plain name"), "plain name");
	assert_string_equal(SHOWN("a\x1b[31m\n\x7f"), "a\\x1b[31m\\x0a\\x7f");
	assert_string_equal(SHOWN("nul\0."), "nul\\x00.");
	assert_string_equal(SHOWN("back\\slash"), "back\\\\slash");
	assert_string_equal(SHOWN("\xc3\xa9"), "\xc3\xa9");
	assert_string_equal(SHOWN("\xc2\x9b"), "\\xc2\\x9b");
	assert_string_equal(SHOWN("\xff\xc3"), "\\xff\\xc3");
	assert_string_equal(SHOWN("\xc0\xaf"), "\\xc0\\xaf");
	assert_string_equal(SHOWN("\xed\xa0\x80"), "\\xed\\xa0\\x80");
	assert_string_equal(SHOWN("\xe2\x80\xae"), "\\xe2\\x80\\xae");
}

static void a_name_is_cut_between_characters(void **state)
{
	char out[6];

	(void)state;
	assert_int_equal(tool_show(out, sizeof(out),
				   "ab\x1b"
				   "c",
				   4),
			 2);
	assert_string_equal(out, "ab");
	assert_int_equal(tool_show(out, sizeof(out), "a\x1b", 2), 5);
	assert_string_equal(out, "a\\x1b");
}

static char *text;
static size_t text_len;

static void json_is_valid(void **state)
{
	struct json j = { .f = open_memstream(&text, &text_len) };

	(void)state;
	assert_non_null(j.f);
	json_open(&j, NULL, '[');
	json_str(&j, NULL, "q\"b\\n\n\x1b\x7f\0\xff\xc3\xa9", 12);
	json_open(&j, NULL, '{');
	json_int(&j, "n", INT64_MIN);
	json_null(&j, "z");
	json_bool(&j, "b", true);
	json_close(&j, '}');
	json_open(&j, NULL, '[');
	json_close(&j, ']');
	json_close(&j, ']');
	fclose(j.f);
	assert_string_equal(
		text,
		"[\n"
		"  "
		"\"q\\\"b\\\\n\\u000a\\u001b\\u007f\\u0000\\u00ff\xc3\xa9\",\n"
		"  {\n"
		"    \"n\": -9223372036854775808,\n"
		"    \"z\": null,\n"
		"    \"b\": true\n"
		"  },\n"
		"  []\n"
		"]\n");
	free(text);
}

static void columns_line_up(void **state)
{
	static const struct table_column columns[] = {
		{ .heading = "A" },
		{ .heading = "B" },
		{ .heading = "NOTE" },
		{ 0 },
	};
	FILE *f = open_memstream(&text, &text_len);
	struct table t;

	(void)state;
	assert_non_null(f);
	table_init(&t, columns);
	table_text(&t, "\xc3\xa9\xc3\xa9\xc3\xa9");
	table_text(&t, "x\n");
	table_text(&t, "");
	table_print(&t, f);
	fclose(f);
	assert_string_equal(text, "A    B\n\xc3\xa9\xc3\xa9\xc3\xa9  x\\x0a\n");
	table_free(&t);
	free(text);
}

/* What a table with these two cells prints below its headings. */
static void prints(unsigned screen, bool colour, bool beneath, const char *path,
		   const char *note, const char *line)
{
	const struct table_column columns[] = {
		{ .heading = "P", .least = 7, .keep_end = true },
		{ .heading = "X" },
		{ .heading = "N", .least = 9, .beneath = beneath },
		{ 0 },
	};
	FILE *f = open_memstream(&text, &text_len);
	struct table t;

	assert_non_null(f);
	table_init(&t, columns);
	table_text(&t, path);
	table_text(&t, "never cut");
	table_look(&t, TABLE_BAD);
	table_text(&t, note);
	t.screen = screen;
	t.colour = colour;
	table_print(&t, f);
	fclose(f);
	table_free(&t);
	assert_string_equal(strchr(text, '\n') + 1, line);
	free(text);
}

#define ACUTE "\xc3\xa9"
#define WIDE  "\xe5\x90\x8d"

static void a_narrow_table_is_cut(void **state)
{
	static const struct {
		unsigned screen;
		const char *path, *note, *line;
	} cases[] = {
		{ 0, "/a/b/c/d/e", "a long note",
		  "/a/b/c/d/e  never cut  a long note\n" },
		{ 34, "/a/b/c/d/e", "a long note",
		  "/a/b/c/d/e  never cut  a long note\n" },
		{ 33, "/a/b/c/d/e", "a long note",
		  "/a/b/c/d/e  never cut  a long ...\n" },
		{ 29, "/a/b/c/d/e", "a long note",
		  ".../d/e  never cut  a long...\n" },
		{ 21, "/a/b/c/d/e", "a long note", "...e  never cut  a...\n" },
		{ 20, "/a/b/c/d/e", "a long note", "...e  never cut\n" },
		{ 1, "/a/b/c/d/e", "a long note", "...e\n" },
		{ 28, ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE, "n",
		  ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE
		  "  never cut  n\n" },
		{ 21, ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE, "n",
		  "..." ACUTE ACUTE ACUTE ACUTE "  never cut  n\n" },
		{ 21, WIDE WIDE WIDE WIDE, "n",
		  "..." WIDE WIDE "  never cut  n\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		prints(cases[i].screen, false, false, cases[i].path,
		       cases[i].note, cases[i].line);
	}
	prints(0, true, false, "p", "n", "p  \033[31mnever cut\033[0m  n\n");
}

static void a_note_stands_beneath(void **state)
{
	(void)state;
	prints(34, false, true, "/a/b/c/d/e", "a long note",
	       "/a/b/c/d/e  never cut  a long note\n");
	prints(33, false, true, "/a/b/c/d/e", "a long note",
	       "/a/b/c/d/e  never cut\n    a long note\n");
	prints(22, true, true, "/a/b/c/d/e", "a note  that is long, indeed",
	       "/a/b/c/d/e  \033[31mnever cut\033[0m\n"
	       "    a note  that is\n    long, indeed\n");
	prints(30, false, true, "/a/b/c/d/e", "", "/a/b/c/d/e  never cut\n");
}

/* An entry of a queue, at 10,000 ms of the server's clock. */
static void queue_entry(struct scan_queue *q, const char *ticket,
			const char *words)
{
	assert_true(scan_queue_add(q, 10000,
				   (struct scan_text){ ticket, strlen(ticket) },
				   (struct scan_text){ words, strlen(words) }));
}

#define CLAIM                                                                  \
	"dlock1 00000000000000000000000000000007 "                             \
	"00000000000000000000000000000000:A 1:1:- " DLK_NEVER                  \
	" 42 web nightly"

static void a_queue_is_read(void **state)
{
	static const char *const none[] = {
		"",
		"x",
		"000000000011000",
		"000000000011000 2000",
		"000000000011000 2000 - EX",
		"000000000011000 2000 - EX x",
		"000000000011000 2000 - QQ " CLAIM,
		"000000000011000 99999 - EX " CLAIM,
		"99999999999999999999 2000 - EX " CLAIM,
		"-1 2000 - EX " CLAIM,
		"000000000011000 2000  EX " CLAIM,
		"000000000011000 2000 - EX " CLAIM "\n",
	};
	struct scan_queue q = { 0 };

	(void)state;
	queue_entry(&q, "head", "1");
	queue_entry(&q, "tail", "9");
	queue_entry(&q, "4", "000000000010000 2000 - EX " CLAIM);
	assert_int_equal(q.n, 0); /* it has expired */
	assert_false(q.cut);
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		q.cut = false;
		queue_entry(&q, "5", none[i]);
		assert_int_equal(q.n, 0);
		assert_true(q.cut);
	}
	queue_entry(&q, "x", "000000000011000 2000 - EX " CLAIM);
	queue_entry(&q, "5", "000000000011000 2000 - SH " CLAIM);
	queue_entry(&q, "6", "000000000010001 2000 f.1 away " CLAIM);
	assert_int_equal(q.n, 2);
	assert_true(q.waiters[0].shared && q.waiters[0].polls);
	assert_int_equal(q.waiters[0].heard_ms, 1000);
	assert_int_equal(q.waiters[0].token.pid, 42);
	assert_true(q.waiters[1].away && !q.waiters[1].polls);
	assert_int_equal(q.waiters[1].heard_ms, 1999);
	scan_queue_free(&q);
}

static void durations_are_short(void **state)
{
	(void)state;
	assert_string_equal(ctl_duration(0).text, "0ms");
	assert_string_equal(ctl_duration(999).text, "999ms");
	assert_string_equal(ctl_duration(29872).text, "29.8s");
	assert_string_equal(ctl_duration(245000).text, "4m05s");
	assert_string_equal(ctl_duration(7620000).text, "2h07m");
	assert_string_equal(ctl_duration(273600000).text, "3d04h");
}

static bool owner(struct scan_owners *o, const char *field, const char *expiry)
{
	return scan_owners_add(o, 1000,
			       (struct scan_text){ field, strlen(field) },
			       (struct scan_text){ expiry, strlen(expiry) });
}

static void an_owner_lives_until_its_expiry(void **state)
{
	struct scan_owners o = { 0 };

	(void)state;
	assert_true(owner(&o, "dlock", "1"));
	assert_true(owner(&o, "dead", "999"));
	assert_true(owner(&o, "dying", "1000"));
	assert_true(owner(&o, "alive", "1001"));
	assert_int_equal(o.read, 3);
	assert_int_equal(o.n, 1);
	assert_int_equal(o.owners[0].len, 5);
	assert_memory_equal(o.owners[0].field, "alive", 5);
	assert_int_equal(o.owners[0].left_ms, 1);
	scan_owners_free(&o);
}

static void an_expiry_that_is_none_is_told(void **state)
{
	static const char *const odd[] = {
		"",
		"soon",
		"-1",
		"12x",
		"1e3",
		" 5",
		"99999999999999999999",
		"9223372036854775808",
	};
	enum { N = sizeof(odd) / sizeof(*odd) };
	struct scan_owners o = { 0 };

	(void)state;
	for (int i = 0; i < N; i++)
		assert_true(owner(&o, odd[i], odd[i]));
	assert_int_equal(o.n, N);
	for (int i = 0; i < N; i++)
		assert_int_equal(o.owners[i].left_ms, -1);
	scan_owners_free(&o);
}

static void an_owner_named_twice_counts_once(void **state)
{
	struct scan_owners o = { 0 };

	(void)state;
	assert_true(owner(&o, "b", "2000"));
	assert_true(owner(&o, "ab", "2000"));
	assert_true(owner(&o, "b", "2000"));
	assert_true(owner(&o, "a", "2000"));
	scan_owners_sort(&o);
	assert_int_equal(o.n, 3);
	assert_memory_equal(o.owners[0].field, "a", 1);
	assert_memory_equal(o.owners[1].field, "ab", 2);
	assert_memory_equal(o.owners[2].field, "b", 1);
	scan_owners_free(&o);
}

/* Two that are alike as far as they are kept may be two. */
static void an_owner_too_long_is_cut(void **state)
{
	static char field[DLK_TOKEN_MAX + 1];
	struct scan_owners o = { 0 };

	(void)state;
	memset(field, 'x', sizeof(field));
	for (size_t len = DLK_TOKEN_MAX - 1; len <= sizeof(field); len++)
		assert_true(scan_owners_add(&o, 0,
					    (struct scan_text){ field, len },
					    (struct scan_text){ "1", 1 }));
	scan_owners_sort(&o);
	assert_int_equal(o.n, 3);
	assert_int_equal(o.owners[0].len, DLK_TOKEN_MAX - 1);
	assert_int_equal(o.owners[1].len, DLK_TOKEN_MAX);
	assert_int_equal(o.owners[2].len, DLK_TOKEN_MAX);
	scan_owners_free(&o);
}

static void owners_are_bounded(void **state)
{
	struct scan_owners o = { 0 };

	(void)state;
	for (int i = 0; i < SCAN_OWNERS_MAX; i++)
		assert_true(owner(&o, "x", i % 2 ? "1" : "2000"));
	assert_true(owner(&o, "dlock", "1"));
	assert_false(owner(&o, "x", "2000"));
	assert_int_equal(o.read, SCAN_OWNERS_MAX);
	assert_int_equal(o.n, SCAN_OWNERS_MAX / 2);
	scan_owners_free(&o);
}

#define ID   "00112233445566778899aabbccddeeff"
#define SEQ  "00000000000000000003"
#define SOON "000000000002000"
#define PAST "000000000001000"

static void an_owner_of_records_is_its_token(void **state)
{
	struct scan_owners o = { .records = true };
	const struct scan_owner *found;

	(void)state;
	assert_true(owner(&o, ID, SEQ " " SOON " " SEQ " a token"));
	assert_true(owner(&o, "dead", SEQ " " PAST " " SEQ " another"));
	assert_true(owner(&o, "aa", SEQ " " SOON " " SEQ " b"));
	assert_true(owner(&o, "dlock", "1"));
	scan_owners_sort(&o);
	assert_int_equal(o.n, 2);
	found = scan_owners_find(&o, (struct scan_text){ ID, strlen(ID) });
	assert_non_null(found);
	assert_int_equal(found->left_ms, 1000);
	assert_int_equal(found->token_len, 7);
	assert_memory_equal(found->token, "a token", 7);
	assert_null(scan_owners_find(&o, (struct scan_text){ ID, 31 }));
	assert_null(scan_owners_find(&o, (struct scan_text){ "dead", 4 }));
	scan_owners_free(&o);
	assert_null(scan_owners_find(&o, (struct scan_text){ ID, 32 }));
}

/* A text that ends early or says something else: kept, with no expiry. */
static void an_odd_owner_of_records_is_told(void **state)
{
	static const char head[] = SEQ " " SOON " " SEQ " t";
	struct scan_owners o = { .records = true };
	char value[sizeof(head)];

	(void)state;
	for (size_t n = 0; n < sizeof(head) - 1; n++) {
		memcpy(value, head, sizeof(head));
		value[n] = '\0';
		assert_true(scan_owners_add(&o, 1000,
					    (struct scan_text){ "x", 1 },
					    (struct scan_text){ value, n }));
		assert_int_equal(o.owners[o.n - 1].left_ms, -1);
		assert_int_equal(o.owners[o.n - 1].token_len, n);
		memcpy(value, head, sizeof(head));
		value[n] = 'x';
		assert_true(owner(&o, "y", value));
	}
	scan_owners_free(&o);
}

#define FROM "0000000000000000010"
#define TO   "9223372036854775807"

static bool place(struct scan_places *p, const char *member)
{
	return scan_places_add(p, member, strlen(member));
}

static void a_range_is_of_its_owner(void **state)
{
	struct scan_places p = { 0 };

	(void)state;
	assert_true(place(&p, "O" ID FROM TO "W"));
	assert_true(place(&p, "O" ID FROM FROM "R"));
	assert_int_equal(p.n, 2);
	assert_memory_equal(p.places[0].owner, ID, DLK_RANDOM_LEN);
	assert_true(p.places[0].range.start == 10);
	assert_true(p.places[0].range.end == DLK_RANGE_MAX);
	assert_int_equal(p.places[0].range.type, DLK_WRITE);
	assert_int_equal(p.places[1].range.type, DLK_READ);
	scan_places_free(&p);
}

static void what_is_no_range_is_passed_over(void **state)
{
	static const char *const odd[] = {
		"",
		"O",
		"O" ID,
		"O" ID FROM TO,
		"O" ID FROM TO "X",
		"O" ID FROM TO "WW",
		"S" ID FROM TO "W",
		"O" ID TO FROM "W",
		"O" ID FROM "9223372036854775808W",
		"O" ID FROM "                   W",
		"O" ID "-000000000000000001" TO "W",
	};
	enum { N = sizeof(odd) / sizeof(*odd) };
	struct scan_places p = { 0 };

	(void)state;
	for (int i = 0; i < N; i++)
		assert_true(place(&p, odd[i]));
	assert_int_equal(p.n, 0);
	assert_int_equal(p.read, N);
	scan_places_free(&p);
}

static void ranges_are_bounded(void **state)
{
	struct scan_places p = { 0 };

	(void)state;
	for (int i = 0; i < SCAN_PLACES_MAX; i++)
		assert_true(place(&p, i % 2 ? "O" ID FROM TO "W" : "O"));
	assert_false(place(&p, "O" ID FROM TO "W"));
	assert_int_equal(p.n, SCAN_PLACES_MAX / 2);
	scan_places_free(&p);
}

/* --- the fleet ------------------------------------------------------------ */

static bool left(struct fleet *f, const char *field, const char *value)
{
	return fleet_add(f, field, strlen(field), value, strlen(value));
}

static void a_host_of_the_fleet_is_read(void **state)
{
	struct fleet f = { .now_ms = 100000 };

	(void)state;
	assert_true(left(&f, "abc:A web%20one",
			 "1 90000 5000000000\n/a/b%20c/ dlock:%25p 30000 0 -\n"
			 "/d k%25r 5000 1000 10.0.0.5:6379/1\n"
			 "/q k 1 1 - quorum%20a%20b%20c more to come\n"));
	assert_int_equal(f.n, 1);
	assert_string_equal(f.hosts[0].host, "abc:A");
	assert_string_equal(f.hosts[0].name, "web%20one");
	assert_int_equal(f.hosts[0].n_rules, 3);
	assert_string_equal(f.hosts[0].rules[0].prefix, "/a/b c/");
	assert_string_equal(f.hosts[0].rules[0].key, "dlock:%p");
	assert_string_equal(f.hosts[0].rules[0].at, "");
	assert_string_equal(f.hosts[0].rules[1].at, "10.0.0.5:6379/1");
	assert_int_equal(f.hosts[0].rules[1].hold_ms, 1000);
	assert_string_equal(f.hosts[0].rules[1].servers, "");
	assert_string_equal(f.hosts[0].rules[2].servers, "quorum a b c");
	/* Granted when its clock showed 3 s: two before it was seen. */
	assert_int_equal(fleet_age_ms(&f, "abc:A", 3000000000), 12000);
	assert_int_equal(fleet_age_ms(&f, "abc:A", 99000000000), 0);
	assert_int_equal(fleet_age_ms(&f, "abc", 3000000000), -1);
	fleet_free(&f);
}

static void what_is_no_host_is_passed_over(void **state)
{
	static const char *const fields[] = { "", "a", "a b c", " " };
	static const char *const texts[] = { "",         "1",       "1 2",
					     "2 1 1\n",  "1 x 1\n", "1 1 x\n",
					     "1 1 1 1\n" };
	static const char *const rules[] = {
		"1 1 1\n\n\n",         "1 1 1\n/a k 1 1\n",
		"1 1 1\n/a k x 1 -\n", "1 1 1\n/a  k 1 1 -\n",
		"1 1 1\na k 1 1 -\n",  "1 1 1\n/a k 1 1 -  more\n"
	};
	struct fleet f = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		assert_false(left(&f, fields[i], "1 1 1\n"));
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_false(left(&f, "a b", texts[i]));
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
		assert_true(left(&f, "a b", rules[i]));
		assert_int_equal(f.hosts[f.n - 1].n_rules, 0);
	}
	fleet_free(&f);
}

/* --- batches -------------------------------------------------------------- */

static void a_batch_has_room_in_a_connection(void **state)
{
	static struct scan_key keys[2 * SCAN_BATCH];

	(void)state;
	for (size_t i = 0; i < 2 * SCAN_BATCH; i++)
		keys[i].len = 50;
	assert_int_equal(scan_batch(keys, 2 * SCAN_BATCH), SCAN_BATCH);
	assert_int_equal(scan_batch(keys, 3), 3);
	for (size_t i = 0; i < 2 * SCAN_BATCH; i++)
		keys[i].len = DLK_KEY_MAX;
	/* PTTL, GETRANGE, EXISTS and HLEN name it, in a buffer of 256 KiB. */
	assert_in_range(scan_batch(keys, 2 * SCAN_BATCH), 1,
			(256 * 1024) / (4 * DLK_KEY_MAX));
}

/* --- a lease without a file ----------------------------------------------- */

static struct dlk_attempt attempted;

static void answer_nothing(struct dlk_store *s, struct dlk_attempt *at,
			   struct dlk_renewal *r, unsigned n)
{
	(void)s, (void)n;
	attempted = *at;
	r->result = -ECONNRESET;
}

/* Asked again, too: store.h. */
static void a_renewal_waits_no_longer_than_it_may(void **state)
{
	static const struct dlk_store_ops ops = { .renew = answer_nothing };
	struct dlk_store store = { .ops = &ops, .connect_timeout_ms = 500 };
	struct dlk_rule rule = { .ttl_ms = 3000 };
	struct lease_job job = { .rule = &rule, .store = &store };
	const uint64_t until = dlk_now_ns() + 3600 * 1000 * DLK_MS;

	(void)state;
	assert_int_equal(lease_job_renew(&job, until), -ECONNRESET);
	assert_true(dlk_attempt_by_ns(&attempted, until - 1) <= until);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_renewal_waits_no_longer_than_it_may),
		cmocka_unit_test(a_host_of_the_fleet_is_read),
		cmocka_unit_test(what_is_no_host_is_passed_over),
		cmocka_unit_test(a_batch_has_room_in_a_connection),
		cmocka_unit_test(glibc_program_is_accepted),
		cmocka_unit_test(musl_program_is_refused),
		cmocka_unit_test(static_program_is_refused),
		cmocka_unit_test(other_machine_is_refused),
		cmocka_unit_test(go_is_told_by_its_note),
		cmocka_unit_test(go_is_told_by_a_later_note),
		cmocka_unit_test(note_that_claims_more_is_no_harm),
		cmocka_unit_test(go_is_told_by_its_sections),
		cmocka_unit_test(cut_file_reads_nothing_outside),
		cmocka_unit_test(any_header_byte_may_lie),
		cmocka_unit_test(other_class_and_order_are_read),
		cmocka_unit_test(this_program_is_accepted),
		cmocka_unit_test(
			what_starts_another_program_elsewhere_is_known),
		cmocka_unit_test(names_are_shown_without_effect),
		cmocka_unit_test(a_name_is_cut_between_characters),
		cmocka_unit_test(json_is_valid),
		cmocka_unit_test(columns_line_up),
		cmocka_unit_test(a_narrow_table_is_cut),
		cmocka_unit_test(a_note_stands_beneath),
		cmocka_unit_test(a_queue_is_read),
		cmocka_unit_test(durations_are_short),
		cmocka_unit_test(an_owner_lives_until_its_expiry),
		cmocka_unit_test(an_expiry_that_is_none_is_told),
		cmocka_unit_test(an_owner_named_twice_counts_once),
		cmocka_unit_test(an_owner_too_long_is_cut),
		cmocka_unit_test(owners_are_bounded),
		cmocka_unit_test(an_owner_of_records_is_its_token),
		cmocka_unit_test(an_odd_owner_of_records_is_told),
		cmocka_unit_test(a_range_is_of_its_owner),
		cmocka_unit_test(what_is_no_range_is_passed_over),
		cmocka_unit_test(ranges_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
