package verify

import "troupe/core/table"

type (
	recordCondition = func(*Records, *known, recordEvent) bool
	recordAction    = func(*Records, *known, recordEvent)

	recordRow   = table.Row[RecordState, RecordEvent, recordCondition, recordAction]
	recordGuard = table.Guard[recordCondition]
)

const recordSame = table.Same

var (
	anyRecord = recordGuard{}
	differs   = recordGuard{"differs", func(_ *Records, k *known, e recordEvent) bool {
		return !k.record.Same(e.record)
	}}

	readable = []RecordState{Local, InStore}
)

// recordRows is the second transition table of doc.go. The first row that fits applies.
var recordRows = table.New("canary records", []recordRow{
	{[]RecordState{Unknown}, evRecorded, anyRecord, Local, (*Records).keep, "store"},
	{[]RecordState{Damaged}, evRecorded, anyRecord, Local, (*Records).replace, "replace"},

	{[]RecordState{Unknown, Damaged}, evStored, anyRecord, InStore, (*Records).adopt, "—"},
	{readable, evStored, differs, InStore, (*Records).conflict, "take the stored one; conflict"},
	{readable, evStored, anyRecord, InStore, (*Records).adopt, "—"},

	{[]RecordState{Unknown, Damaged}, evUnreadable, anyRecord, Damaged, (*Records).damaged, "report"},
	{readable, evUnreadable, anyRecord, Local, (*Records).replaceKnown, "report; replace"},

	{[]RecordState{InStore, Damaged}, evDeleted, anyRecord, Unknown, (*Records).forget, "—"},

	{[]RecordState{Local}, evRetry, anyRecord, recordSame, (*Records).store, "store"},
})
