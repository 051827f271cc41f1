// Package command is the scheduler's command: kube-scheduler's own, with out-of-tree plugins and with events that are written
// behind Bindings (package announce).
//
// It exists because app.NewSchedulerCommand sets the scheduler up and runs it in one step, and what events go through can be
// changed only between the two. app.Setup and app.Run are upstream's; the flags are the same, which a test compares.
package command
