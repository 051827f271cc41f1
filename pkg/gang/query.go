package gang

// Alone reports whether pending members are scheduled like pods of no gang now; see VerdictAlone.
func (s *State) Alone() bool { return s.alone() }
