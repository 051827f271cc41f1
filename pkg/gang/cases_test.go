package gang

import "testing"

// Each of these replays a fault that users have reported, as a script of the events that led to it.

func TestCaseB006GroupAfterItsPods(t *testing.T)      { playScript(t, "testdata/cases/b006") }
func TestCaseB007SiblingIsLate(t *testing.T)          { playScript(t, "testdata/cases/b007") }
func TestCaseB011LongTimeout(t *testing.T)            { playScript(t, "testdata/cases/b011") }
func TestCaseB014LastMemberComesLater(t *testing.T)   { playScript(t, "testdata/cases/b014") }
func TestCaseB017SecondMemberHasNoNode(t *testing.T)  { playScript(t, "testdata/cases/b017") }
func TestCaseB020EndInSeveralEvents(t *testing.T)     { playScript(t, "testdata/cases/b020") }
func TestCaseB022FifthCompletion(t *testing.T)        { playScript(t, "testdata/cases/b022") }
func TestCaseB023ElasticAndWhole(t *testing.T)        { playScript(t, "testdata/cases/b023") }
func TestCaseB026GroupSubmittedAgain(t *testing.T)    { playScript(t, "testdata/cases/b026") }
func TestCaseB027FailureInPreFilter(t *testing.T)     { playScript(t, "testdata/cases/b027") }
func TestCaseB028SurplusMembers(t *testing.T)         { playScript(t, "testdata/cases/b028") }
func TestCaseB030FailedOnlyBelowQuorum(t *testing.T)  { playScript(t, "testdata/cases/b030") }
func TestCaseB032AllMembersDeleted(t *testing.T)      { playScript(t, "testdata/cases/b032") }
func TestCaseB035MinMemberOutOfAnyReach(t *testing.T) { playScript(t, "testdata/cases/b035") }
