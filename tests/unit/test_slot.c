/* SPDX-License-Identifier: MIT */
/* The hash slots of a Redis Cluster: model/slot.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "model/slot.h"

static int slot(const char *key)
{
	return dlk_slot_of(key, strlen(key));
}

/* The specification's own example, and what CLUSTER KEYSLOT (7.0) answers. */
static void known_keys(void **state)
{
	(void)state;
	assert_int_equal(slot("123456789"), 0x31c3);
	assert_int_equal(slot("foo"), 12182);
	assert_int_equal(slot(""), 0);
	assert_int_equal(slot("dlock:/var/lib/x%rec"), 10413);
}

static void braces(void **state)
{
	(void)state;
	assert_int_equal(slot("{foo}"), slot("foo"));
	assert_int_equal(slot("{dlock:/a%rec}%r"), slot("dlock:/a%rec"));
	assert_int_equal(slot("x{foo}y{bar}"), slot("foo"));
	assert_int_equal(slot("{foo{bar}"), slot("foo{bar"));
	assert_int_not_equal(slot("{}foo"), slot("foo"));
	assert_int_not_equal(slot("{}foo"), slot(""));
	assert_int_not_equal(slot("{foo"), slot("foo"));
	assert_int_not_equal(slot("foo}"), slot("foo"));
}

/* Each slot has one, which is in it; as a key's tag it puts that there. */
static void tags(void **state)
{
	char tag[DLK_TAG_LEN + 1], key[32] = "dlock%run:0{";

	(void)state;
	for (int i = 0; i < DLK_SLOTS; i++) {
		dlk_slot_tag(i, tag);
		assert_int_equal(strlen(tag), DLK_TAG_LEN);
		assert_int_equal(strspn(tag, "@ABCDEFGHIJKLMNO"), DLK_TAG_LEN);
		assert_int_equal(slot(tag), i);
	}
	dlk_slot_tag(12182, tag);
	strcat(strcat(key, tag), "}");
	assert_int_equal(slot(key), 12182);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_keys),
		cmocka_unit_test(braces),
		cmocka_unit_test(tags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
