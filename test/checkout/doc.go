// Package checkout finds what tests need of the checkout that they run in: its root, the shipped configuration, and the
// binaries that make build leaves in bin/.
package checkout
