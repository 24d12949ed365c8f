package migrate

import "troupe/core/table"

// TargetState is the state of an attempt to migrate a sequence here.
type TargetState uint8

// States at the target.
const (
	New       TargetState = iota // just offered
	Postponed                    // waits for the end of a step, its adapter, or an earlier attempt
	Reserving                    // its blocks are being reserved
	Opening                      // its blocks are reserved, and the transfer is being opened
	Receiving                    // its blocks arrive; the offer was accepted
	Expecting                    // the offer of a sequence without blocks was accepted
	Closing                      // the source asked to resume it; the transfer is being closed
	Adopting                     // it is being added to the batch
	Running                      // it runs here; the source can still take it back
	Claimed                      // it runs here; its session has contacted this replica
	Refused                      // it was not resumed; its blocks are free
	Releasing                    // it has ended; the transfer is being closed before its blocks are freed
	Gone                         // it has ended, or is unknown
)

func (s TargetState) String() string {
	return [...]string{"new", "postponed", "reserving", "opening", "receiving", "expecting", "closing", "adopting",
		"running", "claimed", "refused", "releasing", "gone"}[s]
}

type (
	targetRow   = row[TargetState, Target, incoming]
	targetGuard = guard[Target, incoming]
)

var (
	fresh     = []TargetState{New}
	postponed = []TargetState{Postponed}
	reserving = []TargetState{Reserving}
	opening   = []TargetState{Opening}
	receiving = []TargetState{Receiving}
	expecting = []TargetState{Expecting}
	closing   = []TargetState{Closing}
	adopting  = []TargetState{Adopting}
	running   = []TargetState{Running}
	releasing = []TargetState{Releasing}
	// sinks are the states with a transfer.
	sinks = []TargetState{Opening, Receiving}
	// settled are the states with an answer to ResumeSequence.
	settled = []TargetState{Running, Claimed, Refused}
	over    = []TargetState{Releasing, Gone}
	busy    = []TargetState{Closing, Adopting}
	past    = []TargetState{Closing, Adopting, Running, Claimed, Refused, Releasing, Gone}
	unknown = []TargetState{Postponed, Opening, Releasing, Gone}
	// timed are the states with a timer.
	timed       = []TargetState{Receiving, Expecting, Closing, Adopting, Running, Claimed, Refused}
	refusedOnly = []TargetState{Refused}
	sinkless    = []TargetState{Postponed, Expecting, Running, Claimed, Refused}
	staying     = []TargetState{Running, Claimed, Releasing}
	known       = []TargetState{
		Postponed, Reserving, Opening, Receiving, Expecting, Closing, Adopting, Running, Claimed, Refused, Releasing,
	}
)

var (
	mustWait     = targetGuard{"must wait", (*Target).mustWait}
	queueFull    = targetGuard{"must wait, queue full", (*Target).queueFull}
	unacceptable = targetGuard{"refused by check", (*Target).unacceptable}
	releasingID  = targetGuard{"blocks not free", (*Target).releasingID}
	patient      = targetGuard{"its adapter is loading", (*Target).patient}
	noBlocks     = targetGuard{"no blocks", (*Target).noBlocks}
	notServing   = targetGuard{"not serving", (*Target).notServing}
	incomplete   = targetGuard{"blocks are missing", (*Target).incomplete}
	stillHere    = targetGuard{"still here", (*Target).stillHere}
	audible      = targetGuard{"heard in 5 s", (*Target).audible}
	silent       = targetGuard{"silent for 5 s", (*Target).silent}
)

// targetTable is the second transition table of doc.go. The first row that fits applies.
var targetTable = table.New("migrate target", []targetRow{
	{fresh, OfferArrived, queueFull, Gone, (*Target).overflow, "—"},
	{fresh, OfferArrived, mustWait, Postponed, (*Target).postpone, "keep the offer"},
	{fresh, OfferArrived, unacceptable, Gone, (*Target).refuse, "refuse"},
	{fresh, OfferArrived, targetGuard{}, Reserving, (*Target).reserveNew, "keep the offer; reserve"},
	{receiving, OfferArrived, targetGuard{}, same, (*Target).acceptAgain, "accept again"},
	{expecting, OfferArrived, targetGuard{}, same, (*Target).acceptAgain, "accept again"},

	{postponed, StepEnded, releasingID, same, (*Target).stay, "—"},
	{postponed, StepEnded, unacceptable, Gone, (*Target).refusePostponed, "release adapter; refuse"},
	{postponed, StepEnded, targetGuard{}, Reserving, (*Target).reserve, "reserve"},

	{reserving, NotReserved, patient, Postponed, (*Target).postponeAgain, "—"},
	{reserving, NotReserved, targetGuard{}, Gone, (*Target).refuseUnreserved, "release adapter; refuse"},
	{reserving, Reserved, noBlocks, Expecting, (*Target).accept, "watch; accept; set the timer"},
	{reserving, Reserved, targetGuard{}, Opening, (*Target).openSink, "open the transfer"},

	{opening, Opened, targetGuard{}, Receiving, (*Target).accept, "watch; accept; set the timer"},
	{opening, OpenFailed, targetGuard{}, Gone, (*Target).refuseUnopened, "free the blocks; refuse"},
	{releasing, Opened, targetGuard{}, same, (*Target).stay, "—"},
	{releasing, OpenFailed, targetGuard{}, same, (*Target).stay, "—"},

	{receiving, ResumeArrived, targetGuard{}, Closing, (*Target).closeSink, "keep the message; close the transfer"},
	{expecting, ResumeArrived, notServing, Refused, (*Target).refuseDraining, "release adapter; refuse"},
	{expecting, ResumeArrived, targetGuard{}, Adopting, (*Target).adoptQueued, "keep the message; adopt"},
	{busy, ResumeArrived, targetGuard{}, same, (*Target).hear, "—"},
	{settled, ResumeArrived, targetGuard{}, same, (*Target).answerAgain, "answer again"},
	{unknown, ResumeArrived, targetGuard{}, same, (*Target).refuseUnknown, "refuse"},

	{closing, Closed, notServing, Refused, (*Target).refuseDraining, "free the blocks; refuse"},
	{closing, Closed, incomplete, Refused, (*Target).refuseIncomplete, "free the blocks; refuse"},
	{closing, Closed, targetGuard{}, Adopting, (*Target).adopt, "adopt"},
	{releasing, Closed, targetGuard{}, Gone, (*Target).free, "free the blocks; answer offers"},

	{adopting, Adopted, targetGuard{}, Running, (*Target).answer, "answer"},
	{adopting, NotAdopted, targetGuard{}, Refused, (*Target).answer, "refuse"},
	{running, Claim, targetGuard{}, Claimed, (*Target).stay, "—"},

	{postponed, Abandoned, targetGuard{}, Gone, (*Target).withdraw, "release the adapter"},
	{sinks, Abandoned, targetGuard{}, Releasing, (*Target).release, "close the transfer"},
	{closing, Abandoned, targetGuard{}, Releasing, (*Target).unwatch, "—"},
	{over, Abandoned, targetGuard{}, same, (*Target).stay, "—"},
	{expecting, Abandoned, targetGuard{}, Gone, (*Target).withdraw, "release the adapter"},
	{running, Abandoned, stillHere, Gone, (*Target).giveBack, "cancel its migration; drop it"},
	{settled, Abandoned, targetGuard{}, Gone, (*Target).forget, "—"},

	{timed, Timer, audible, same, (*Target).setExpiry, "set the timer"},
	{receiving, Timer, targetGuard{}, same, (*Target).ask, "ask the data plane; set the timer"},
	{expecting, Timer, targetGuard{}, Gone, (*Target).withdraw, "release the adapter"},
	{closing, Timer, targetGuard{}, same, (*Target).setExpiry, "set the timer"},
	{settled, Timer, targetGuard{}, Gone, (*Target).forget, "—"},
	{over, Timer, targetGuard{}, same, (*Target).stay, "—"},
	{receiving, Heard, silent, Releasing, (*Target).release, "close the transfer"},
	{receiving, Heard, targetGuard{}, same, (*Target).heardBlock, "—"},
	{past, Heard, targetGuard{}, same, (*Target).stay, "—"},

	{postponed, Lost, targetGuard{}, Gone, (*Target).withdraw, "release the adapter"},
	{sinks, Lost, targetGuard{}, Releasing, (*Target).release, "close the transfer"},
	{closing, Lost, targetGuard{}, Releasing, (*Target).unwatch, "—"},
	{expecting, Lost, targetGuard{}, Gone, (*Target).withdraw, "release the adapter"},
	{refusedOnly, Lost, targetGuard{}, Gone, (*Target).forget, "—"},
	{staying, Lost, targetGuard{}, same, (*Target).stay, "—"},

	{opening, PlaneLost, targetGuard{}, Gone, (*Target).refuseUnopened, "free the blocks; refuse"},
	{receiving, PlaneLost, targetGuard{}, Gone, (*Target).free, "free the blocks; answer offers"},
	{closing, PlaneLost, targetGuard{}, Refused, (*Target).refuseIncomplete, "free the blocks; refuse"},
	{releasing, PlaneLost, targetGuard{}, Gone, (*Target).free, "free the blocks; answer offers"},
	{sinkless, PlaneLost, targetGuard{}, same, (*Target).stay, "—"},

	{known, Stopped, targetGuard{}, Gone, (*Target).forget, "unwatch"},
})
