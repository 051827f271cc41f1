package allocate

// Short is String without what differs from node to node beyond the number of cards that would serve: of nodes that
// refuse one request there are then few different texts, however many nodes there are.
func (r *Rejection) Short() string {
	short := *r
	// Without a card that is used, too small or the pod's own, String does not name the largest free part.
	short.Counts = [causes]int{CauseNone: r.Cards()}
	return short.String()
}
