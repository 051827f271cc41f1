//go:build !unix

package process

import (
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

// killGroup kills p alone: there are no process groups here.
func killGroup(p *os.Process) error { return p.Kill() }
