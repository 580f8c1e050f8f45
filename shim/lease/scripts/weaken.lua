#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- [WEAKEN] A downgrade that got no answer, once more: compare and make it
-- shared; never re-create.
--
-- KEYS    1 the lease
-- ARGV    1 token  2 ttl (ms)
-- 1 it is a shared one now; 0 it is not there
--include flock.inc
local token, ttl = ARGV[1], tonumber(ARGV[2])
local len = redis.pcall('STRLEN', key)
if type(len) ~= 'number' then
	return redis.call('TYPE', key).ok == 'hash' and token ~= 'dlock'
	       and redis.call('HEXISTS', key, token) or 0
end
if len == 0 or not same(holder(''), token) then
	return 0
end
redis.call('DEL', key)
add_reader(token, ttl)
return 1
