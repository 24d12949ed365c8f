// Command node is one member of Troupe: it owns the GPUs of its machine and serves models on them.
//
// Flags, environment and file are read here and nowhere below, and all of them are checked before anything starts.
// Results and advice go to standard output, logs to standard error. The exit status is 0 when it did what was asked, 1 when that
// failed, and 2 when what was asked makes no sense.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

const about = `Troupe serves many language models on a shared pool of GPUs.

Start a node, then ask it for text:

  troupe up --config examples/quickstart.yaml --try "In the beginning"
  troupe tree
  troupe top

What "troupe up" is told by flag can be told by environment (--http as TROUPE_HTTP) and by a YAML file too.
"troupe COMMAND --help" shows more examples.`

type commands struct {
	Up      upCommand      `cmd:"" help:"Start a node and serve until Ctrl-C."`
	Tree    treeCommand    `cmd:"" help:"Show the supervision tree of all nodes."`
	Top     topCommand     `cmd:"" help:"Watch nodes, GPUs, replicas and deployments live."`
	KV      kvCommand      `cmd:"" name:"kv" help:"Show where KV blocks are, and what moves between the tiers."`
	Doctor  doctorCommand  `cmd:"" help:"Look at this machine, and say what is wrong and how to mend it."`
	Certs   certsCommand   `cmd:"" help:"Make the certificates by which nodes know each other."`
	Keys    keysCommand    `cmd:"" help:"Make keys for those who use the models."`
	Version versionCommand `cmd:"" help:"Show which build this is."`
}

// console is where a command writes.
type console struct{ out, log io.Writer }

func main() {
	os.Exit(run(os.Args[1:], console{os.Stdout, os.Stderr}))
}

func run(args []string, c console) int {
	parser, err := kong.New(&commands{}, kong.Name("troupe"), kong.Description(about), kong.Writers(c.out, c.log),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 110}), kong.Bind(c), helpVars())
	if err != nil {
		panic(fmt.Sprintf("troupe: command line: %v", err))
	}
	command, err := parser.Parse(args)
	if err != nil {
		err = &usageError{fmt.Errorf("%w; see troupe --help", err)}
	} else {
		err = command.Run()
	}
	return exitCode(err, c.log)
}

// usageError is a command that makes no sense as it was given.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func exitCode(err error, log io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(log, "troupe: %s\n", strings.TrimRight(err.Error(), "\n"))
	if usage := (*usageError)(nil); errors.As(err, &usage) {
		return 2
	}
	return 1
}
