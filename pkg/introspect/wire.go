package introspect

import "time"

// Summary is the answer of /v1/summary. Every card is counted in one state; those that are closed for another reason than
// a quarantine, or unusable, are in none of the three that are listed.
type Summary struct {
	// Synced is false until the ledger has heard of every bound pod that existed at the start.
	Synced bool `json:"synced"`
	// Leading is true on the replica that schedules.
	Leading bool `json:"leading"`
	// Nodes are those with GPUs, Cards all of their cards.
	Nodes int `json:"nodes"`
	Cards int `json:"cards"`
	// Held are cards of which somebody holds a part, or that are set aside for pods that do not say which cards they use;
	// Quarantined are all cards of nodes whose holdings contradict each other; Free can be given to a pod.
	Held        int `json:"held"`
	Free        int `json:"free"`
	Quarantined int `json:"quarantined"`
	// Suspects are pods whose bind has no known outcome yet.
	Suspects int `json:"suspects"`
}

// Pod is what one pod holds.
type Pod struct {
	UID string `json:"uid"`
	// Pod is "namespace/name".
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// Stage is "assumed", "unknown" or "bound".
	Stage string `json:"stage"`
	// Cooling is true where the pod is gone and its cards are kept back for a while, since its containers may still run.
	Cooling bool        `json:"cooling"`
	Cards   []CardShare `json:"cards"`
	// UnknownCards and UnknownMIG are cards and instances that the pod holds and nobody can name.
	UnknownCards int            `json:"unknownCards"`
	UnknownMIG   []ProfileCount `json:"unknownMIG"`
}

// CardShare is a part of a card, as in the allocation record.
type CardShare struct {
	Index int    `json:"index"`
	UUID  string `json:"uuid"`
	// SliceMask is hexadecimal, "0xffffffffffffffff" for a whole card.
	SliceMask    string `json:"sliceMask"`
	VRAMBytes    int64  `json:"vramBytes"`
	ComputeMilli int32  `json:"computeMilli"`
	// MIG is the profile of an instance, "" for anything else.
	MIG string `json:"mig"`
}

// ProfileCount is a number of MIG instances of one profile.
type ProfileCount struct {
	Profile string `json:"profile"`
	Count   int    `json:"count"`
}

// Node is the state of one node's cards. Cards is the sum of Free, Held, Closed, Unusable and Foreign.
type Node struct {
	Name  string `json:"name"`
	Cards int    `json:"cards"`
	// Free can be given to a pod. Held has a holder, sick cards and those of a node in quarantine too. Foreign is set aside
	// for pods that do not say which cards they use. Of the others, Unusable are sick, and Closed are kept from new pods
	// for another reason.
	Free     int `json:"free"`
	Held     int `json:"held"`
	Closed   int `json:"closed"`
	Unusable int `json:"unusable"`
	Foreign  int `json:"foreign"`
	// Quarantine says why the whole node is closed, "" if it is not.
	Quarantine string `json:"quarantine"`
	// Conflicts are contradictions between holdings and cards, at most MaxConflicts.
	Conflicts []string `json:"conflicts"`
	// Missing is the number of shares of cards that the node does not list now.
	Missing int `json:"missing"`
}

// Gang is one PodGroup.
type Gang struct {
	// Gang is "namespace/name"; UID is empty where only pods name the group and there is no such object.
	Gang string `json:"gang"`
	UID  string `json:"uid"`
	// Phase is "forming", "planned", "admitting", "running", "broken" or "finished"; of a group that is no gang "absent" (there
	// is no such object), "invalid" or "singles" (its members are scheduled one by one).
	Phase     string `json:"phase"`
	MinMember int    `json:"minMember"`
	// Members exist. Held are those with a node: planned, reserved, on their way, or bound; Bound are among them.
	Members int `json:"members"`
	Held    int `json:"held"`
	Bound   int `json:"bound"`
	// Reason says in one sentence why the gang waits, "" if it does not.
	Reason string `json:"reason"`
	// Plan is what is held for members that are not bound, nil if nothing is.
	Plan *Plan `json:"plan"`
}

// Plan is what is held for members of a gang that are not bound.
type Plan struct {
	// ID is the name of the plan, the last one's where members were planned at several times.
	ID string `json:"id"`
	// Members are in ascending order of name.
	Members []PlannedMember `json:"members"`
}

// PlannedMember is one member's place. Rank is -1 if it has none.
type PlannedMember struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	Rank int    `json:"rank"`
}

// Sweep is what the sweeps did since the process started.
type Sweep struct {
	// Sweeps counts those that ended. The next five are of the last one; Started is zero before the first.
	Sweeps          int64     `json:"sweeps"`
	Started         time.Time `json:"started"`
	DurationSeconds float64   `json:"durationSeconds"`
	Pods            int       `json:"pods"`
	Nodes           int       `json:"nodes"`
	// Suspected are orphans that were seen for the first time: they are released if the next sweep sees them too.
	Suspected int `json:"suspected"`
	// Repairs counts what was repaired since the start, by kind.
	Repairs map[string]int64 `json:"repairs"`
	// Last are the last repairs, the newest first, at most MaxRepairs.
	Last []Repair `json:"last"`
}

// Repair is one difference between ledger and cluster that a sweep ended.
type Repair struct {
	At     time.Time `json:"at"`
	Kind   string    `json:"kind"`
	Pod    string    `json:"pod"`
	Node   string    `json:"node"`
	Detail string    `json:"detail"`
}

// page is the answer of a list.
type page[T any] struct {
	Items    []T    `json:"items"`
	Continue string `json:"continue"`
}

// Limits of answers.
const (
	// DefaultLimit is the number of items of a page that asks for none, MaxLimit the most that it may ask for.
	DefaultLimit = 500
	MaxLimit     = 5000
	// MaxConflicts bounds the conflicts that are listed of a node.
	MaxConflicts = 100
	// MaxRepairs bounds Sweep.Last.
	MaxRepairs = 100
	// MaxPlanned bounds the planned members of a page of gangs: the gang that reaches it is the last of its page.
	MaxPlanned = 20000
)
