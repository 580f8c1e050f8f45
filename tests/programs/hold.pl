# SPDX-License-Identifier: MIT
#
# Lock FILE; 'held'; at a line on standard input close it: 'free'.
use strict;
use warnings;
use Fcntl ':flock';

$| = 1;
open(my $file, '+>>', $ARGV[0]) or die "$ARGV[0]: $!\n";
flock($file, LOCK_EX) or die "flock: $!\n";
my $other = system('true') >> 8;
print "held $other\n";
<STDIN>;
close($file);
print "free\n";
