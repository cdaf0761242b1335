#!/bin/bash
# behind.sh COMMAND...: with what all others leave over of the processors. Tests that compute run so beside those that wait (morsel_keeps_busy()),
# and come before these nowhere; where the system has no such class, they only give way.
if chrt --idle 0 true 2>/dev/null; then exec chrt --idle 0 "$@"; fi
exec nice -n 19 "$@"
