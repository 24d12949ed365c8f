package migrate

import "troupe/core/table"

// SourceState is the state of a sequence that a command migrates from here.
type SourceState uint8

// States at the source.
const (
	Waiting   SourceState = iota // named by a command, not offered yet
	Offering                     // the target reserves blocks
	Copying                      // full blocks are being sent while the sequence continues
	Pausing                      // held; a step in flight still computes the sequence
	Finishing                    // held; the last blocks are being sent
	Resuming                     // held; the target was asked to resume the sequence
	Ended                        // the sequence moved, or continues here
)

func (s SourceState) String() string {
	return [...]string{"waiting", "offering", "copying", "pausing", "finishing", "resuming", "ended"}[s]
}

type (
	sourceRow   = row[SourceState, Source, outgoing]
	sourceGuard = guard[Source, outgoing]
)

var (
	waiting   = []SourceState{Waiting}
	offering  = []SourceState{Offering}
	copying   = []SourceState{Copying}
	pausing   = []SourceState{Pausing}
	finishing = []SourceState{Finishing}
	resuming  = []SourceState{Resuming}
	sending   = []SourceState{Copying, Finishing}
	asking    = []SourceState{Offering, Resuming}
	leaving   = []SourceState{Offering, Copying, Pausing, Finishing, Resuming}
	ended     = []SourceState{Ended}
)

var (
	notHere     = sourceGuard{"not on this replica", (*Source).notHere}
	migrating   = sourceGuard{"already migrating", (*Source).migrating}
	full        = sourceGuard{"4 others migrate", (*Source).full}
	unready     = sourceGuard{"in its first step, or restoring", (*Source).unready}
	queued      = sourceGuard{"queued", (*Source).queued}
	handedOver  = sourceGuard{"the sequence moved", (*Source).hasMoved}
	manyGrown   = sourceGuard{"many blocks, beyond the transfer", (*Source).manyGrown}
	many        = sourceGuard{"more than a step fills", (*Source).many}
	inFlight    = sourceGuard{"in flight", (*Source).inFlight}
	lastGrown   = sourceGuard{"last blocks, beyond the transfer", (*Source).lastGrown}
	last        = sourceGuard{"last blocks", (*Source).last}
	unanswered  = sourceGuard{"repeated 8 times", (*Source).unanswered}
	pausedLong  = sourceGuard{"paused for more than 2 s", (*Source).pausedLong}
	startedLong = sourceGuard{"offered more than 2 min ago", (*Source).startedLong}
)

// sourceTable is the first transition table of doc.go. The first row that fits applies.
var sourceTable = table.New("migrate source", []sourceRow{
	{waiting, Started, notHere, Ended, (*Source).reportGone, "report"},
	{waiting, Started, migrating, Ended, (*Source).reportMigrating, "report"},
	{waiting, Started, full, same, (*Source).wait, "—"},
	{waiting, Started, queued, Offering, (*Source).offerQueued, "hold; watch, offer; set the timer"},
	{waiting, Started, unready, same, (*Source).wait, "—"},
	{waiting, Started, sourceGuard{}, Offering, (*Source).offer, "watch, offer; set the timer"},

	{offering, Offered, manyGrown, Ended, (*Source).outgrow, "abort"},
	{offering, Offered, many, Copying, (*Source).copyOffered, "send the full blocks"},
	{offering, Offered, inFlight, Pausing, (*Source).pauseOffered, "hold"},
	{offering, Offered, lastGrown, Ended, (*Source).outgrow, "abort"},
	{offering, Offered, last, Finishing, (*Source).finishOffered, "hold; send the last blocks"},
	{offering, Offered, sourceGuard{}, Resuming, (*Source).commitOffered, "hold; ask to resume"},
	{ended, Offered, handedOver, same, nil, "ignore"},
	{ended, Offered, sourceGuard{}, same, (*Source).abandonLate, "abandon the reservation"},
	{offering, OfferRefused, sourceGuard{}, Ended, (*Source).refused, "abort"},

	{copying, Sent, manyGrown, Ended, (*Source).outgrow, "abort"},
	{copying, Sent, many, Copying, (*Source).copy, "send the full blocks"},
	{copying, Sent, inFlight, Pausing, (*Source).pause, "hold"},
	{copying, Sent, lastGrown, Ended, (*Source).outgrow, "abort"},
	{copying, Sent, last, Finishing, (*Source).finish, "hold; send the last blocks"},
	{copying, Sent, sourceGuard{}, Resuming, (*Source).commit, "hold; ask to resume"},
	{finishing, Sent, sourceGuard{}, Resuming, (*Source).commitSent, "ask to resume"},
	{ended, Sent, sourceGuard{}, same, (*Source).wait, "—"},
	{sending, SendFailed, sourceGuard{}, Ended, (*Source).sendFailed, "abort"},
	{ended, SendFailed, sourceGuard{}, same, (*Source).wait, "—"},

	{pausing, StepEnded, inFlight, same, (*Source).wait, "—"},
	{pausing, StepEnded, lastGrown, Ended, (*Source).outgrow, "abort"},
	{pausing, StepEnded, last, Finishing, (*Source).finishHeld, "send the last blocks"},
	{pausing, StepEnded, sourceGuard{}, Resuming, (*Source).commitPaused, "ask to resume"},

	{resuming, Resumed, sourceGuard{}, Ended, (*Source).moved, "redirect the session; drop"},
	{resuming, ResumeFailed, sourceGuard{}, Ended, (*Source).refused, "abort"},

	{asking, Timer, unanswered, Ended, (*Source).giveUp, "abort"},
	{finishing, Timer, pausedLong, Ended, (*Source).pauseExpired, "abort"},
	{leaving, Timer, startedLong, Ended, (*Source).expired, "abort"},
	{asking, Timer, sourceGuard{}, same, (*Source).repeat, "repeat; set the timer"},
	{leaving, Timer, sourceGuard{}, same, (*Source).setTimer, "set the timer"},
	{ended, Timer, sourceGuard{}, same, (*Source).wait, "—"},

	{leaving, Lost, sourceGuard{}, Ended, (*Source).targetLost, "abort"},
	{leaving, Cancelled, sourceGuard{}, Ended, (*Source).cancelled, "abort"},
	{sending, PlaneLost, sourceGuard{}, Ended, (*Source).planeLost, "abort"},
	{leaving, Stopped, sourceGuard{}, Ended, (*Source).stopped, "abandon; unwatch"},
})
