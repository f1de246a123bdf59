package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Usage gives an error in what the user has written its exit code. An error that has one keeps it.
func Usage(err error) error { return Otherwise(ExitUsage, err) }

// Usagef is Usage of a sentence.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Wanter is a flag's value that says what it wants. The sentence begins with the flag and "want".
type Wanter interface{ Wants() string }

// strict makes a program answer wrong usage by a sentence that says what to do, and by ExitUsage.
func strict(program *cobra.Command, args []string) error {
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		return nil // a shell asks about a command line that is not complete
	}
	program.InitDefaultHelpCmd()
	program.InitDefaultCompletionCmd(args...)
	program.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return Usage(flagTrouble(cmd, err)) })
	cmd, rest, err := program.Find(args)
	if !cmd.Runnable() && len(rest) > 0 && (err != nil || !strings.HasPrefix(rest[0], "-")) {
		i := slices.IndexFunc(rest, func(s string) bool { return !strings.HasPrefix(s, "-") })
		return unknownCommand(cmd, rest[max(i, 0)])
	}
	accepts := cmd.Args
	switch {
	case !cmd.Runnable(): // it has commands, and prints its help
		return nil
	case cmd.Name() == "help" && cmd.Parent() == program:
		accepts = func(_ *cobra.Command, topic []string) error {
			about, rest, err := program.Find(topic)
			if err != nil || len(rest) > 0 {
				return unknownCommand(about, topic[len(topic)-max(len(rest), 1)])
			}
			return nil
		}
	case accepts == nil:
		accepts = cobra.ArbitraryArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := accepts(cmd, args); err != nil {
			return arguments(cmd, accepts, args, err)
		}
		if err := missingFlags(cmd); err != nil {
			return err
		}
		return Usage(cmd.ValidateFlagGroups())
	}
	return nil
}

func unknownCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = max(cmd.SuggestionsMinimumDistance, 2)
	advice := cmd.CommandPath() + " --help lists them"
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		advice = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return Usagef("%q is no command of %s: %s", name, cmd.CommandPath(), advice)
}

// arguments says in words what cobra says in numbers: which argument is too much, or that one is missing.
func arguments(cmd *cobra.Command, accepts cobra.PositionalArgs, args []string, err error) error {
	if errors.As(err, new(ExitError)) {
		return err
	}
	if cmd.HasAvailableSubCommands() && len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	for n := len(args) - 1; n >= 0; n-- {
		if accepts(cmd, args[:n]) == nil {
			return Usagef("%q is too much: write %s", args[n], cmd.UseLine())
		}
	}
	return Usagef("an argument is missing: write %s", cmd.UseLine())
}

// missingFlags is an error if the command has flags that must be given, and one is not.
func missingFlags(cmd *cobra.Command) error {
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if required := f.Annotations[cobra.BashCompOneRequiredFlag]; len(required) > 0 && required[0] == "true" && !f.Changed {
			value, _ := pflag.UnquoteUsage(f)
			missing = append(missing, "--"+f.Name+" "+value)
		}
	})
	if len(missing) == 0 {
		return nil
	}
	return Usagef("give %s: %s --help explains", strings.Join(missing, " and "), cmd.CommandPath())
}

// flagTrouble says what is wrong with a flag, and what it wants.
func flagTrouble(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var odd *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			name = name[1:]
		}
		return fmt.Errorf("%s is no flag of %s: %s --help lists them", name, cmd.CommandPath(), cmd.CommandPath())
	case errors.As(err, &bare):
		want := wants(bare.GetFlag())
		if want == "" {
			want, _ = pflag.UnquoteUsage(bare.GetFlag())
		}
		return fmt.Errorf("%s has no value: want %s", flagName(bare.GetFlag()), want)
	case errors.As(err, &odd):
		cause := odd.Unwrap()
		// Errors of package strconv and time are for programmers.
		if want := wants(odd.GetFlag()); want != "" && (errors.As(cause, new(*strconv.NumError)) || strings.HasPrefix(cause.Error(), "time: ")) {
			return fmt.Errorf("%s %q: want %s", flagName(odd.GetFlag()), odd.GetValue(), want)
		}
		return fmt.Errorf("%s %q: %w", flagName(odd.GetFlag()), odd.GetValue(), cause)
	}
	return err
}

func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return fmt.Sprintf("-%s (--%s)", f.Shorthand, f.Name)
	}
	return "--" + f.Name
}

// wants is the value that a flag takes, or "" if the value's own error says it.
func wants(f *pflag.Flag) string {
	if w, ok := f.Value.(Wanter); ok {
		return w.Wants()
	}
	switch kind := f.Value.Type(); kind {
	case "int", "int64", "uint", "uint32", "uint64":
		return "a whole number"
	case "intSlice":
		return "whole numbers with commas in between"
	case "float64":
		return "a number"
	case "duration":
		return "a time with its unit, such as 15s or 2m"
	case "bool":
		return "true or false"
	}
	return ""
}
