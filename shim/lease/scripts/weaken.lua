#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- [WEAKEN] A downgrade that got no answer, once more: compare and make it
-- shared; never re-create.
--
-- KEYS    1 the lease
-- ARGV    1 token  2 ttl (ms)  3 how it lingers, or none
-- 1 it is a shared one now; 0 it is not there
--include flock.inc
local token, ttl = ARGV[1], tonumber(ARGV[2])
local len = redis.pcall('STRLEN', key)
if type(len) ~= 'number' then
	local text = redis.call('TYPE', key).ok == 'hash' and token ~= 'dlock'
		     and redis.call('HGET', key, token)
	local expiry, mode = read_lease(text or '0')
	if mode == 'EX' and expiry > now then
		put_lease(token, ttl, 'SH', ARGV[3])
	end
	return text and (mode == 'SH' or expiry > now) and 1 or 0
end
local _, of = holder('')
if len == 0 or not same(of, token) then
	return 0
end
put_lease(token, ttl, 'SH', ARGV[3])
return 1
