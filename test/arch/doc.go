// Package arch holds the shape of the repository as tests: which package may import which, and why.
//
// The table in table_test.go has one row for each package. A row names all that the package's product code may import
// besides the standard library, what its tests may import beyond that, and the reason why the rest is not there. The
// rules that no single row can express, about what a program links in the end, are in the list of separations below it.
//
// The check reads import clauses only:
//
//	*.go -> package, files, imports -> rows   -> breaches
//	                                -> separations, over the closure of product imports
//	                                -> house rules: doc.go, package names, file lengths
//
// A new package fails the check until it has a row; a row whose package is gone fails it too.
package arch
