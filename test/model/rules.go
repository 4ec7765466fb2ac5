// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// Property is what no order of events may violate.
type Property uint8

// The properties.
const (
	_ Property = iota
	PodsKeepInterfaces
	OrderFirst
	KindKeepsInterfaces
	OneInterface
	NothingLeaks
	RestLasts
	OnePodPerAddress
	PodsKeepPrefixes
	PodsGetPrefixes
	HolderKeepsAddress
	HolderChanges
	AddressFollows
)

var properties = [...]string{
	PodsKeepInterfaces:  "no interface is detached or deleted under a running pod",
	OrderFirst:          "no interface is detached or deleted before its object is",
	KindKeepsInterfaces: "no wanted interface is removed because its kind is deleted",
	OneInterface:        "an object has one interface",
	NothingLeaks:        "fair steps lead to what is wanted, and nothing else",
	RestLasts:           "what is reached stays, without a fault or an order",
	OnePodPerAddress:    "no two pods have one address",
	PodsKeepPrefixes:    "no prefix is unassigned under a running pod",
	PodsGetPrefixes:     "a pod starts only with a prefix that EC2 has on its interface",
	HolderKeepsAddress:  "EC2 moves an address from its last holder only after it has another one",
	HolderChanges:       "an address changes its holder only when it comes up elsewhere or goes",
	AddressFollows:      "fair steps lead an address to the node where it is up, or to none",
}

func (p Property) String() string { return properties[p] }

// Rule is a rule of the protocol.
type Rule uint8

// Whole is the protocol with all its rules.
const Whole Rule = 0

// The rules of the lifecycle.
const (
	_ Rule = iota
	ObjectFirst
	Token
	Tombstone
	FinishAnswered
	FinishVisible
	DetachFinal
	LiveRead
	DetachByID
	UnownedStays
	UnownedLive
	TakeOverFirst
	TakeOverSettled
	TakeOverAttached
	TakenOverHeld
	AnswerForENI
	WritesNameUID
	Fence
	LetGo
	EndedHoldsNothing
	AttachLive

	// Those of pods.

	HoldFirst
	ProcessWritesFirst
	AnswersNameVersion
	LetGoIdle
	CheckpointBeforeLetGo
	CheckpointBeforeAnswer
	CheckpointByENI
	CheckpointOfEarlierBoot
	HoldNamesBoot
	FolderAfterLiveRead
	ClosesWhenOff
	SilenceProvesNothing
	ReadUnderLock

	// Those of prefixes.

	ReleaseIdle
	CheckpointBeforeRelease
	ReleaseNamesVersion
	ReleaseAfterOwnWrite
	ReturnReleased
	ReturnBeforeCall
	ReturningBlocksGrant
	NewestRead
	ForgetSettled
	FoundReturningWaits
	OnePrefixCall
	AssignAfterReturning

	// Those of floating addresses.

	HolderNamesVersion
	StartTakesNothing
	HolderEmpties
	AssignUntilSettled
	StatusOfGeneration
	AssignLive
	DeleteNamesVersion
	UnassignUnderTombstone
	AddressFinishSettled
)

// Requirement is a rule, with the shortest way to show that the protocol needs it.
type Requirement struct {
	Rule   Rule
	Text   string
	Source string   // the section of the design, and the row of its table of writes; + for a rule that the design lacks
	Breaks Property // without the rule
	// Search explores the machine that has the rule, with few faults, without a rule or Whole.
	Search func(without Rule) Outcome
}

// Requirements returns all rules in their order.
func Requirements() []Requirement { return requirements }

var requirements = []Requirement{
	{ObjectFirst, "The object exists before a call for its interface.", "1.2 C2", NothingLeaks,
		lifecycle{objects: 1, faults: lifecycleFaults{toggles: 1, leaders: 1}}.search},
	{Token, "The UID of the object is EC2's client token.", "1.1", OneInterface,
		lifecycle{objects: 1, faults: lifecycleFaults{leaders: 1}}.search},
	{Tombstone, "A finalizer of the controller keeps a deleted object.", "1.1", NothingLeaks,
		lifecycle{objects: 1, faults: lifecycleFaults{toggles: 1}}.search},
	{FinishAnswered, "The finalizer goes after EC2 answered that the interface is deleted, or a settled read shows none.",
		"1.2 C8", NothingLeaks,
		lifecycle{objects: 1, faults: lifecycleFaults{toggles: 1, leaders: 1}}.search},
	{FinishVisible, "The finalizer of an object without an eniID goes after a settled read shows no interface.",
		"1.2 C8", NothingLeaks,
		lifecycle{objects: 1, faults: lifecycleFaults{toggles: 1, leaders: 1}}.search},
	{DetachFinal, "An interface is detached only if its object is deleted and not held.", "1.1", PodsKeepInterfaces,
		lifecycle{objects: 1, faults: lifecycleFaults{toggles: 1}}.search},
	{LiveRead, "One live read of the object, final and with this eniID, precedes Detach and Delete.", "1.2", OrderFirst,
		lifecycle{objects: 2, lagging: true, faults: lifecycleFaults{leaders: 1, deletions: 1, tears: 1}}.search},
	{DetachByID, "Detach names the eniID of an object, never an interface found by its tag.", "1.7", PodsKeepInterfaces,
		lifecycle{objects: 2, faults: lifecycleFaults{toggles: 1, tears: 1}}.search},
	{UnownedStays, "An attached interface without an object is never detached.", "1.7", PodsKeepInterfaces,
		lifecycle{objects: 2, faults: lifecycleFaults{tears: 1}}.search},
	{UnownedLive, "An unattached interface is unowned only by a live read too.", "1.7", OrderFirst,
		lifecycle{objects: 1, lagging: true, faults: lifecycleFaults{leaders: 1}}.search},
	{TakeOverFirst, "An object takes over what has its name before it creates.", "1.7", NothingLeaks,
		lifecycle{objects: 2, faults: lifecycleFaults{tears: 1}}.search},
	{TakeOverSettled, "An object takes over only by a settled read.", "1.7", OrderFirst,
		lifecycle{objects: 2, faults: lifecycleFaults{deletions: 1, lostAnswers: 1, tears: 1}}.search},
	{TakeOverAttached, "Of several interfaces with its name, an object takes over the attached one.", "+", NothingLeaks,
		lifecycle{objects: 3, early: true, faults: lifecycleFaults{lostAnswers: 1, tears: 1, kinds: 1}}.search},
	{TakenOverHeld, "What was taken over is held until an agent answers.", "1.7", PodsKeepInterfaces,
		lifecycle{objects: 2, faults: lifecycleFaults{toggles: 1, tears: 1}}.search},
	{AnswerForENI, "An agent answers only for an object with an eniID.", "1.2 A1", PodsKeepInterfaces,
		lifecycle{objects: 2, faults: lifecycleFaults{toggles: 1, tears: 1}}.search},
	{WritesNameUID, "DELETE and the end of the finalizer name the UID.", "1.2 C4, C8", NothingLeaks,
		lifecycle{objects: 2, faults: lifecycleFaults{toggles: 1, leaders: 1, deletions: 1}}.search},
	{Fence, "A leader begins no call after its lease has ended.", "1.8", NothingLeaks,
		lifecycle{objects: 1, faults: lifecycleFaults{toggles: 1, leaders: 1}}.search},
	{LetGo, "While the kind is being deleted, objects go without a call.", "1.7 C9", KindKeepsInterfaces,
		lifecycle{objects: 1, faults: lifecycleFaults{kinds: 1}}.search},
	{EndedHoldsNothing, "The hold on an interface of an ended instance does not count.", "1.4, 1.9", NothingLeaks,
		lifecycle{objects: 1, faults: lifecycleFaults{ends: 1}}.search},
	{AttachLive, "A live read precedes Attach of an interface that no status names.", "+", NothingLeaks,
		lifecycle{objects: 2, lagging: true, faults: lifecycleFaults{leaders: 1, deletions: 1}}.search},

	{HoldFirst, "The agent opens an interface after its hold is written.", "1.2 A2", PodsKeepInterfaces,
		pods{objects: 1, faults: podsFaults{toggles: 1}}.search},
	{ProcessWritesFirst, "A process of the agent writes the object before it opens.", "1.2 A1", PodsKeepInterfaces,
		pods{objects: 1, faults: podsFaults{toggles: 1, restarts: 1, offs: 2}}.search},
	{AnswersNameVersion, "The agent's writes name the version that it has read.", "1.1, 1.2", PodsKeepInterfaces,
		pods{objects: 1, faults: podsFaults{toggles: 1, restarts: 1}}.search},
	{LetGoIdle, "The agent ends its hold only without a lease in use.", "1.2 A4", PodsKeepInterfaces,
		pods{objects: 1, faults: podsFaults{toggles: 1}}.search},
	{CheckpointBeforeLetGo, "The checkpoint forgets the interface before the agent ends its hold.",
		"1.2 A4", PodsKeepInterfaces,
		pods{objects: 1, faults: podsFaults{toggles: 1, boots: 1}}.search},
	{CheckpointBeforeAnswer, "The checkpoint forgets the interface before a first answer that nothing is open.",
		"1.2 A1", PodsKeepInterfaces,
		pods{objects: 2, faults: podsFaults{toggles: 1, boots: 1, tears: 1}}.search},
	{CheckpointByENI, "The checkpoint is looked up by interface, not by the object's UID.", "1.5", PodsKeepInterfaces,
		pods{objects: 2, faults: podsFaults{toggles: 1, boots: 1, tears: 1}}.search},
	{CheckpointOfEarlierBoot, "The checkpoint names its boot, and opens an interface only in a later one.",
		"+", OnePodPerAddress,
		pods{objects: 1, faults: podsFaults{boots: 1, lostRun: 1}}.search},
	{HoldNamesBoot, "The hold names the boot: if the files of this boot are lost, nothing opens.",
		"1.2, 1.5", OnePodPerAddress,
		pods{objects: 1, faults: podsFaults{lostRun: 1}}.search},
	{FolderAfterLiveRead, "A process makes the folder of an interface only after a live read of the object.",
		"1.5", OnePodPerAddress,
		pods{objects: 1, faults: podsFaults{restarts: 1, boots: 1, lostRun: 1}}.search},
	{ClosesWhenOff, "An agent without pod networks closes what it has and ends its holds.", "1.5", NothingLeaks,
		pods{objects: 1, faults: podsFaults{toggles: 1, offs: 1}}.search},
	{SilenceProvesNothing, "An agent without pod networks reports no end of a hold that it has not seen.",
		"1.5", PodsKeepInterfaces,
		pods{objects: 1, faults: podsFaults{toggles: 1, offs: 1}}.search},
	{ReadUnderLock, "The CNI program reads the file under its lock.", "1.5", PodsKeepInterfaces,
		pods{objects: 1, faults: podsFaults{toggles: 1}}.search},

	{ReleaseIdle, "The agent releases a prefix only without a lease in use.", "1.2 A3", PodsKeepPrefixes,
		prefix{faults: prefixFaults{demands: 1}}.search},
	{CheckpointBeforeRelease, "The checkpoint forgets a prefix before the agent releases it.", "1.2 A3", PodsGetPrefixes,
		prefix{faults: prefixFaults{demands: 1, restarts: 1, boots: 1}}.search},
	{ReleaseNamesVersion, "The agent's writes to released name the version.", "1.2 A3", PodsGetPrefixes,
		prefix{faults: prefixFaults{demands: 1, restarts: 1}}.search},
	{ReleaseAfterOwnWrite, "A process of the agent writes the object before it uses a prefix.", "1.2 A1", PodsGetPrefixes,
		prefix{faults: prefixFaults{demands: 1, restarts: 1}}.search},
	{ReturnReleased, "Only a released prefix returns.", "1.2 C6", PodsGetPrefixes,
		prefix{faults: prefixFaults{demands: 1}}.search},
	{ReturnBeforeCall, "A prefix is in returning before Unassign.", "1.2 C6", PodsGetPrefixes,
		prefix{faults: prefixFaults{demands: 2}}.search},
	{ReturningBlocksGrant, "A prefix in returning is not granted.", "1.2 C5", PodsGetPrefixes,
		prefix{faults: prefixFaults{demands: 1}}.search},
	{NewestRead, "A grant needs a read that is newer than the last forgotten prefix.", "1.2 C5", PodsGetPrefixes,
		prefix{faults: prefixFaults{demands: 1}}.search},
	{ForgetSettled, "A returned prefix is forgotten only after a settled read.", "1.2 C7", PodsGetPrefixes,
		prefix{faults: prefixFaults{demands: 1}}.search},
	{FoundReturningWaits, "Unassign for an entry of an earlier leader waits until its calls have ended.",
		"1.8", PodsGetPrefixes,
		prefix{faults: prefixFaults{demands: 2, leaders: 2, lostAnswers: 1}}.search},
	{OnePrefixCall, "An interface has one prefix call at a time.", "1.5", PodsGetPrefixes,
		prefix{faults: prefixFaults{demands: 2, lostAnswers: 1}}.search},
	{AssignAfterReturning, "Assign waits until returning is empty.", "1.5", PodsGetPrefixes,
		prefix{faults: prefixFaults{demands: 2}}.search},

	{HolderNamesVersion, "An agent writes the holder over the version that it has read.", "1.6", HolderChanges,
		address{faults: addressFaults{moves: 2, lateClaims: 1}}.search},
	{StartTakesNothing, "An agent that starts takes no address that another node holds.", "1.6", HolderChanges,
		address{faults: addressFaults{moves: 2}}.search},
	{HolderEmpties, "Only the holder empties the holder.", "1.6", HolderChanges,
		address{faults: addressFaults{moves: 2}}.search},
	{AssignUntilSettled, "The leader assigns an address until a settled read shows it there.", "1.6", HolderKeepsAddress,
		address{faults: addressFaults{moves: 2, lostAnswers: 1}}.search},
	{StatusOfGeneration, "The status counts only for the holder for which it was written.", "+", HolderKeepsAddress,
		address{faults: addressFaults{moves: 2, ends: 1, lostAnswers: 1}}.search},
	{AssignLive, "A live read of the holder precedes Assign and Unassign.", "+", HolderKeepsAddress,
		address{faults: addressFaults{moves: 2, leaders: 1}}.search},
	{DeleteNamesVersion, "DELETE of an address names the version without a holder.", "1.6", HolderKeepsAddress,
		address{faults: addressFaults{moves: 2, ends: 1}}.search},
	{UnassignUnderTombstone, "An address without a holder is unassigned only after its object is deleted.",
		"1.6", HolderKeepsAddress,
		address{faults: addressFaults{moves: 2, ends: 1, lostAnswers: 1}}.search},
	{AddressFinishSettled, "The finalizer of an address goes after a settled read shows it nowhere.",
		"1.6", AddressFollows,
		address{faults: addressFaults{moves: 1, ends: 1}}.search},
}
