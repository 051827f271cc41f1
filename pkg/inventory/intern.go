package inventory

import "unique"

// intern returns one copy of a string that many cards of many nodes share: the names of products, switches and MIG profiles.
func intern(s string) string { return unique.Make(s).Value() }
