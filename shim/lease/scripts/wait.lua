#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Tell of a wait (see waits.h).
--
-- KEYS    1 dlock%wait:PROCESS
-- ARGV    1 how long it stands without a refresh (ms)  2 what is waited for
--
-- its number: the server's microseconds, 20 digits
local time = redis.call('TIME')
local id = string.format('%014.0f%06.0f', time[1], time[2])
while redis.call('HEXISTS', KEYS[1], id) == 1 do
	id = string.format('%020.0f', id + 1)
end
redis.call('HSET', KEYS[1], id, ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return id
