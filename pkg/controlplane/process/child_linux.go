package process

import "syscall"

// attributes puts the child into its own process group and has the kernel kill
// it when its parent dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
