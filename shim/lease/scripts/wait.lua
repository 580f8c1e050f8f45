#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Report a wait, for the first time or again (see waits.h).
--
-- KEYS    1 dlock%wait:{w}PROCESS
-- ARGV    1 how long it is believed (ms)  2 its number, or "" for a new one, as
--         it gets if it has expired: see lock/deadlock.c  3 what is waited for
--
-- {number, now}: the server's microseconds, 20 digits each
local time = redis.call('TIME')
local now = string.format('%014.0f%06.0f', time[1], time[2])
local id = ARGV[2]
if id == '' or redis.call('HEXISTS', KEYS[1], id) == 0 then
	-- Waits that nobody reports any more, for nobody came back to end them.
	local old = string.format('%020.0f', now - 1000 * ARGV[1])
	local got = redis.call('HGETALL', KEYS[1])
	for i = 1, #got, 2 do
		if string.sub(got[i + 1], 1, 20) < old then
			redis.call('HDEL', KEYS[1], got[i])
		end
	end
	id = now
	while redis.call('HEXISTS', KEYS[1], id) == 1 do
		id = string.format('%020.0f', id + 1)
	end
end
redis.call('HSET', KEYS[1], id, now .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return { id, now }
