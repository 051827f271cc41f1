// Package command is the scheduler's command: kube-scheduler's own, with out-of-tree plugins and with events that are written
// behind Bindings (package announce).
//
// It exists because app.NewSchedulerCommand sets the scheduler up and runs it in one step: its options are its own, the recorder
// of events is made while it sets up, and a plugin cannot change it. So what upstream's command does around app.Setup and app.Run
// is done here, in the same order, and a test compares the flags. Whoever moves to another Kubernetes release reads upstream's
// runCommand again.
package command
