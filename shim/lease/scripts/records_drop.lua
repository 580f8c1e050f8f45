#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- [DROP] records_set.lua for a server that was restarted, and does not know
-- that: nobody is granted any, for a server that is too young grants nothing
-- (DESIGN L5); who waits looks for itself.
--
-- KEYS (but for the queue), ARGV, and the answer, as there
--include records.inc
local waits = false
--include records_set.inc
return set()
