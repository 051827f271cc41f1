// Package cases holds the list of faults that users of GPU schedulers have reported and the tests that replay them.
//
// README.md has one row a test: the case's number, the folder of the test and its name. The test of this package fails
// on a row whose test does not exist, on a replayed case without a row, and on a case of the files that are done which
// no row names.
package cases
