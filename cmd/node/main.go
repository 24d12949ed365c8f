// Command node is one member of a Troupe cluster: it owns the GPUs of its machine and serves models
// on them.
//
// Only this package reads flags, environment and file, and it checks them before anything starts.
// Results and advice go to standard output, logs to standard error. The exit status is 0 on success,
// 1 if the command failed, and 2 if its arguments or settings are invalid.
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

Start a node, complete a prompt, and look at the cluster from another terminal:

  troupe up --config examples/quickstart.yaml --try "In the beginning"
  troupe tree
  troupe top

Control it with the stock nats command, at the NATS address that "troupe up" prints:

  nats req troupe.v1.models.deploy '{"deployment": {"name": "my-model", "path": "/folder/of/my-model"}}'
  nats req troupe.v1.models.list '{}'

Sizes are written 512MiB or 8GiB, durations 30s or 5m, shares 0.9, addresses 127.0.0.1:8000.
Each option of "troupe up" is also an environment variable (--http is TROUPE_HTTP) and a key of the YAML file (http).
"troupe COMMAND --help" shows all options of a command, with examples.`

type commands struct {
	Up      upCommand      `cmd:"" group:"run" help:"Start a node and serve until Ctrl-C."`
	Tree    treeCommand    `cmd:"" group:"observe" help:"Print the supervision tree of all nodes."`
	Top     topCommand     `cmd:"" group:"observe" help:"Watch nodes, GPUs, replicas and deployments live."`
	KV      kvCommand      `cmd:"" group:"observe" name:"kv" help:"Show KV blocks by tier, and copies between tiers."`
	Doctor  doctorCommand  `cmd:"" group:"run" help:"Check this machine and the options, with remedies."`
	Certs   certsCommand   `cmd:"" group:"credentials" help:"Create, show and revoke certificates."`
	Keys    keysCommand    `cmd:"" group:"credentials" help:"Create API keys and NATS keys."`
	Version versionCommand `cmd:"" group:"other" help:"Print version, commit and platform of this build."`

	Plan      planCommand      `cmd:"" group:"plan" help:"Show what the planner would do now, and why."`
	Record    recordCommand    `cmd:"" group:"plan" help:"Record a cluster: requests, decisions and events."`
	Report    reportCommand    `cmd:"" group:"plan" help:"Report the devices that models use and waste."`
	Calibrate calibrateCommand `cmd:"" group:"plan" help:"Measure what models cost on the devices of this machine."`
	Simulate  simulateCommand  `cmd:"" group:"plan" help:"Simulate a cluster on virtual time, without a GPU."`
}

// console is where a command writes its results and its log.
type console struct{ out, log io.Writer }

func main() {
	os.Exit(run(os.Args[1:], console{os.Stdout, os.Stderr}))
}

func run(args []string, c console) int {
	parser, err := kong.New(&commands{}, kong.Name("troupe"), kong.Description(about), kong.Writers(c.out, c.log),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 110}), kong.Bind(c), grammar())
	if err != nil {
		panic(fmt.Sprintf("troupe: command line: %v", err))
	}
	command, err := parser.Parse(args)
	if err != nil {
		err = &usageError{fmt.Errorf("%w; see %s --help", err, selectedCommand(err))}
	} else {
		err = command.Run()
	}
	return exitCode(err, c.log)
}

// selectedCommand returns the command that a parse error belongs to.
func selectedCommand(err error) string {
	if failed := (*kong.ParseError)(nil); errors.As(err, &failed) && failed.Context.Selected() != nil {
		return failed.Context.Selected().FullPath()
	}
	return "troupe"
}

// usageError reports invalid arguments or settings; the exit status is 2.
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
