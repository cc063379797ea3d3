//! Random fleets from fixed seeds, and from fresh ones, whose root is printed. A failing seed is shrunk and printed
//! with the command to rerun it.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use ironclad_cli::evictions::failover;
use ironclad_seam::Rng;
use ironclad_testkit::sim::{
    nightly,
    runner::{Runner, setup},
    script::{self, App, Script},
    sometimes,
};

/// Runs of one test in a nightly run; there are two of each kind, so that they share the processors.
const SEEDS: u64 = 25;

fn run(seeds: impl Iterator<Item = u64>) -> anyhow::Result<()> {
    run_all(seeds.map(Script::from_seed))
}

fn run_all(scripts: impl Iterator<Item = Script>) -> anyhow::Result<()> {
    let (mut evictions, mut failed) = (0, Vec::new());
    for script in scripts {
        match script::run(&script) {
            Ok(outcome) => evictions += outcome.evictions,
            Err(error) => {
                let shrunk = script::shrink(&script, error);
                println!("{:#}\nagain: {}\n", shrunk.error, shrunk.script.again());
                failed.push(format!("{}: {}", shrunk.script.again(), shrunk.error.root_cause()));
            }
        }
    }
    println!("{evictions} evictions; {:?}", sometimes::counts());
    if failed.is_empty() { Ok(()) } else { bail!("{} seeds failed:\n{}", failed.len(), failed.join("\n")) }
}

fn fresh() -> anyhow::Result<()> {
    let root = Rng::from_system();
    let (seed, seeds) = (root.seed(), nightly::half(SEEDS));
    println!("fresh seeds from root {seed:#x}: cargo xtask sim --root {seed:#x} --seeds {seeds}");
    let draws = root.stream("seeds");
    run((0..seeds).map(|_| draws.u64()))
}

#[test]
fn fixed_seeds_one() -> anyhow::Result<()> {
    run(0..nightly::half(SEEDS))
}

#[test]
fn fixed_seeds_two() -> anyhow::Result<()> {
    run(SEEDS..SEEDS + nightly::half(SEEDS))
}

#[test]
fn fresh_seeds_one() -> anyhow::Result<()> {
    fresh()
}

#[test]
fn fresh_seeds_two() -> anyhow::Result<()> {
    fresh()
}

/// Seeds that found bugs or find planted decisions (docs/development/simulation.md).
const FOUND: [u64; 21] = [
    1_806_146_854_875_475_175, 7_383_933_221_329_863_325, 14_401_176_098_906_740_768, 16_567_658_818_147_586_975,
    15_131_547_778_077_012_804, 474_025_781_294_115_229, 65_842_373_549_793_085, 6_776_195_408_786_231_057,
    16_175_596_238_128_629_087, 9_452_939_821_608_122_048, 13_596_446_008_988_795_418, 13_481_650_329_095_124_963,
    17_041_263_934_527_772_640, 3_398_914_129_017_939_045, 9_722_648_411_792_118_219, 13_486_991_190_287_540_667,
    3_256_902_225_794_286_771, 16_849_353_147_443_835_594, 6_713_317_249_959_587_236, 9_426_247_270_513_189_379,
    9_786_037_789_431_072_099,
];
/// The same, for scripts without long outages and actions of users.
const FOUND_PLAIN: [u64; 1] = [14_497_215_014_844_890_239];
/// The same, for scripts with scarce capacity.
const FOUND_SCARCE: [u64; 40] = [
    1_873_676_339_634_607_399, 9_152_826_870_083_263_383, 1_000_116_291_319_168_569, 562_105_294_881_677_089,
    12_158_873_168_815_095_586, 6_398_698_355_475_773_862, 4_621_281_244_028_488_093, 14_855_884_242_139_308_435,
    7_833_720_737_998_558_310, 336_527_703_307_034_533, 5_169_983_375_538_553_975, 8_580_776_429_341_061_577,
    4_568_923_287_079_210_413, 6_641_808_229_423_379_600, 2_602_457_910_969_276_683, 16_310_713_505_119_095_818,
    17_922_503_606_771_706_930, 16_300_964_400_029_916_955, 5_629_290_293_420_581_196, 13_578_133_696_932_850_665,
    15_709_896_327_673_987_087, 10_123_228_496_445_050_776, 7_712_616_594_154_663_216, 1_981_654_238_942_263_645,
    539_791_366_725_705_618, 1_923_541_929_630_357_106, 16_025_302_633_777_294_632, 14_435_386_000_426_331_701,
    5_277_358_688_390_638_331, 14_500_183_071_578_491_008, 6_457_015_380_208_808_732, 12_815_663_911_282_334_011,
    15_877_187_623_171_414_879, 3_580_082_628_472_099_691, 14_815_222_516_319_648_236, 13_695_549_125_982_891_038,
    17_593_640_853_062_192_116, 15_133_772_644_142_086_898, 18_344_432_852_029_106_277, 4_400_165_763_674_350_729,
];

/// The same, for scarce capacity in members that differ.
const FOUND_VARIED: [u64; 11] = [
    18_129_289_884_177_473_152, 16_963_806_085_913_340_606, 7_745_111_846_513_486_657, 23_588_383_369_365_769,
    12_959_038_583_260_007_621, 9_335_317_463_766_061_679, 6_777_605_932_424_855_515, 3_078_260_726_015_459_002,
    9_994_890_913_754_006_717, 6_640_423_712_518_006_633, 12_626_367_646_145_156_860,
];

#[test]
fn fixed_seeds_in_members_that_differ() -> anyhow::Result<()> {
    run_all((0..nightly::half(SEEDS / 2)).chain(FOUND_VARIED).map(Script::varied))
}

#[test]
fn fixed_seeds_with_members_in_pull_mode() -> anyhow::Result<()> {
    run_all((0..nightly::half(SEEDS / 2)).map(Script::pulled))
}

#[test]
fn seeds_that_found_bugs() -> anyhow::Result<()> {
    let plain = FOUND_PLAIN.into_iter().map(Script::plain);
    let scarce = FOUND_SCARCE.into_iter().map(Script::scarce);
    run_all(FOUND.into_iter().map(Script::from_seed).chain(plain).chain(scarce))
}

#[test]
fn a_script_has_one_history() -> anyhow::Result<()> {
    for seed in [3, 5] {
        let script = Script::from_seed(seed);
        assert_eq!(script::run(&script)?.digest, script::run(&script)?.digest, "seed {seed}");
    }
    Ok(())
}

/// The checker of late evictions works on whole worlds: if a user holds evictions without a rule that
/// allows it, the checker reports it, and not too early.
#[tokio::test(start_paused = true)]
async fn a_missing_eviction_is_detected() -> anyhow::Result<()> {
    let mut rules = setup(3, 0.5);
    rules.rules.late = true;
    let mut runner = Runner::new(rules).await?;
    runner.settle(&[App::new("web")]).await?;
    runner.world.pass(Duration::from_secs(120)).await?;
    failover::set(&runner.world.user(), failover::EvictionSwitch::Paused).await?;
    let on = runner.placed("web")?.first().and_then(|placed| placed.split(':').next().map(str::to_owned));
    runner.taint(&[&*on.context("it is placed")?], "NoExecute").await?;
    runner.world.pass(Duration::from_secs(30)).await?;
    let late = runner.world.pass(Duration::from_secs(30)).await.err().map(|error| error.to_string());
    ensure!(late.as_ref().is_some_and(|said| said.starts_with("invariant 8: default/web-deployment")), "{late:?}");
    Ok(())
}
