package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// ticks is how many parts of a second /proc counts in: USER_HZ, 100 on every architecture that Linux has in common
	// use.
	ticks = 100
	// A process is idle when it used less than idleShare of one core for idlePeriod. idlePatience bounds the wait.
	idleShare    = 0.05
	idlePeriod   = 500 * time.Millisecond
	idlePatience = 30 * time.Second
)

// cpuSeconds returns the user and system time of a process.
func cpuSeconds(pid int) (float64, error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	seconds, err := parseStat(string(text))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return seconds, nil
}

var errStat = errors.New("not in the form of proc_pid_stat(5)")

// parseStat reads fields 14 and 15, utime and stime. The second field is a name in parentheses that may hold anything.
func parseStat(text string) (float64, error) {
	end := strings.LastIndexByte(text, ')')
	fields := strings.Fields(text[end+1:])
	if end < 0 || len(fields) < 13 {
		return 0, errStat
	}
	var sum int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || n < 0 {
			return 0, errStat
		}
		sum += n
	}
	return float64(sum) / ticks, nil
}

// awaitIdle returns once a process has nothing more to do.
func awaitIdle(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, idlePatience)
	defer cancel()
	tick := time.NewTicker(idlePeriod)
	defer tick.Stop()
	last, err := cpuSeconds(pid)
	for err == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d still works: %w", pid, ctx.Err())
		case <-tick.C:
		}
		var now float64
		if now, err = cpuSeconds(pid); err == nil && now-last < idleShare*idlePeriod.Seconds() {
			return nil
		}
		last = now
	}
	return err
}
