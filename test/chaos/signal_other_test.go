//go:build !unix

package chaos

import "errors"

var errNoSignals = errors.New("this system has no SIGSTOP")

func stop(int) error { return errNoSignals }

func proceed(int) error { return errNoSignals }
