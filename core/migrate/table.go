package migrate

import "troupe/core/table"

// row is one transition of an attempt A of machine M.
type row[S table.Enum, M, A any] = table.Row[S, Event, condition[M, A], func(*M, *A, event)]

type condition[M, A any] = func(*M, *A, event) bool

type guard[M, A any] = table.Guard[condition[M, A]]

const same = table.Same
