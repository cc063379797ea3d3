// Command clients uses an API server through client-go, controller-runtime and helm, and
// prints its observations: one line each, the same on every server that behaves like a kube-apiserver. The test
// `clients` of ironclad-testkit runs it against the embedded server and a real one and compares the lines.
//
// The command `interpreter` is a server instead: an interpreter webhook as users of Karmada write it. The command
// `render` prints what helm makes of a chart, without a server; `release` installs one, and changes what it installed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Deadline of a command.
const deadline = 100 * time.Second

var commands = map[string]func(context.Context, *world) error{
	"informers": sharedInformers,
	"dynamic":   dynamicClient,
	"leader":    leaderElection,
	"apply":     serverSideApply,
	"manager":   controllerManager,
	"helm":      helmReleases,
	"restart":   followRestarts,
}

func main() {
	// A separate flag set: libraries add flags to the default one.
	flags := flag.NewFlagSet("clients", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the server")
	namespace := flags.String("namespace", "", "a namespace that does not exist yet; all that is made is in it, or named after it")
	home := flags.String("home", "", "a directory for files that come and go")
	if err := flags.Parse(os.Args[1:]); err != nil {
		os.Exit(2)
	}
	if flags.Arg(0) == "interpreter" && *home != "" && flags.NArg() == 1 {
		ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer cancel()
		end(serveInterpreter(ctx, *home))
		return
	}
	if flags.Arg(0) == "render" && *namespace != "" && flags.NArg() > 3 {
		end(render(context.Background(), flags.Arg(1), flags.Arg(2), *namespace, flags.Args()[3:]))
		return
	}
	if flags.Arg(0) == "release" && *kubeconfig != "" && *namespace != "" && *home != "" && flags.NArg() > 2 {
		klog.LogToStderr(true)
		end(releaseOf(context.Background(), *kubeconfig, *namespace, *home, flags.Args()[1:]))
		return
	}
	command, known := commands[flags.Arg(0)]
	if !known || *kubeconfig == "" || *namespace == "" || *home == "" || flags.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: clients --kubeconfig FILE --namespace NAME --home DIR informers|dynamic|leader|apply|manager|helm|restart")
		fmt.Fprintln(os.Stderr, "       clients --home DIR interpreter")
		fmt.Fprintln(os.Stderr, "       clients --kubeconfig FILE --namespace NAME --home DIR release install|upgrade NAME CHART VALUES")
		fmt.Fprintln(os.Stderr, "       clients --kubeconfig FILE --namespace NAME --home DIR release rollback NAME REVISION|uninstall NAME")
		fmt.Fprintln(os.Stderr, "       clients --namespace NAME render CHART RELEASE VALUES...")
		os.Exit(2)
	}
	// Log messages of the libraries go to stderr, which the test shows if a command fails.
	klog.LogToStderr(true)
	ctrllog.SetLogger(logr.Discard())

	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	world, err := newWorld(*kubeconfig, *namespace, *home)
	if err == nil {
		err = world.begin(ctx)
	}
	if err == nil {
		err = command(ctx, world)
	}
	end(err)
}

// end ends the process if the command failed.
func end(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}
