"""The entry of a configuration: which class it is, which of its stacks, and which classes are
refused and why."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from thermostats.errors import DataError
from thermostats.measurement.architectures import (
    ARCHITECTURES,
    LIKE_TOWERS,
    LLAMA,
    STACKS,
    TEXT_TOWERS,
)
from thermostats.measurement.model_class import (
    Architecture,
    Config,
    UnknownArchitectureError,
    UnsupportedArchitectureError,
)

HEADLESS = "files_without_head"
"""Key that `spectra.read_config` adds to a configuration: its class is one without a head of next
tokens, as embedding and reward models are, and its files hold none."""
OTHER_HEADS = (
    "score",
    "classifier",
    "qa_outputs",
    "v_head",
    "value_head",
    "reward_head",
    "regression_head",
    "summary",
)
"""Modules of such classes that are no part of the decoder."""

_REFUSED = {
    (
        "its state-space blocks share weights, run next to attention, or are alone in a block "
        "where others hold "
        "feed-forward layers"
    ): ("zamba zamba2 falcon_h1 nemotron_h"),
    "its recurrent or linear-attention blocks are of several forms, and no entry describes them": (
        "rwkv xlstm minimax lfm3 kimi_linear bailing_hybrid olmo_hybrid qwen4_exp qwen4_exp_text "
        "hrm_text lara_mini"
    ),
    "it is an encoder-decoder: cross-attention has no estimand here, and no entry describes its "
    "encoder": (
        "prophetnet bigbird_pegasus trocr canary_decoder dia_decoder encoder-decoder fsmt led "
        "longt5 nllb-moe "
        "pegasus_x pix2struct pp_formulanet pp_formulanet_text rag switch_transformers t5gemma "
        "t5gemma2 udop "
        "vision-encoder-decoder nougat"
    ),
    "it has several stacks: save the one to be measured separately, as its text or vision model": (
        "cohere_compass inkling2 inkling2_loop inkling_mm_model lfm3_vl nemotron_h_omni siglip2 "
        "emu3 git mllama "
        "llama4 gemma3n gemma4 gemma4_unified gemma4_assistant gemma4_unified_assistant "
        "phi4_multimodal dots3_note "
        "modernvbert ultravbert shieldgemma2 perceiver moshi timm_wrapper timm_backbone aimv2 "
        "align altclip blip "
        "bridgetower chinese_clip clap clipseg clvp cosmos3_edge deepseek_ocr2 diffusion_gemma "
        "embedding_gemma2 "
        "ernie4_5_vl_moe flava glm4v_moe glm5_next glm_image groupvit hunyuan_vl hy_v4_vl idefics "
        "kosmos-2 kosmos-2.5 "
        "muse_glimmer muse_spark qwen2_5_omni_thinker qwen3_omni_moe_thinker step3p7 "
        "t5gemma2_encoder tvp "
        "unlimited_ocr uvdoc xclip evolla EvollaModel chameleon colmodernvbert colpali colqwen2 "
        "flava_multimodal_model blip-2 instructblip instructblipvideo florence2 kimi_k25 "
        "apertus1p5 perception_lm "
        "fast_vlm jev sam3 omdet-turbo grounding-dino mm-grounding-dino vision-text-dual-encoder "
        "hyperclovax_vision_v2"
    ),
    "its blocks are convolutions or pooling: there is no attention matrix, W_V or W_O": (
        "bit convnext convnextv2 dinov3_convnext efficientnet focalnet hgnet_v2 mobilenet_v1 "
        "mobilenet_v2 poolformer "
        "pp_lcnet regnet resnet textnet mobilevit mobilevitv2 swiftformer levit cvt"
    ),
    "its width changes between stages, and no entry exists yet for gains within stages": (
        "swinv2 swin2sr donut-swin dinat hiera pvt pvt_v2 segformer glpn"
    ),
    "it reads videos: patches over time have no position here": (
        "timesformer videomae vivit videoprism_vision_model edgetam_video_mask_decoder "
        "edgetam_video_prompt_encoder "
        "instructblipvideo_qformer instructblipvideo_vision_model pe_video_encoder videoprism "
        "videoprism_text_model "
        "vjepa2 pe_video"
    ),
    "it is a detection or dense prediction model: what follows its backbone has no estimand here": (
        "detr conditional_detr dab-detr deformable_detr table-transformer dpt depth_pro yolos "
        "vitdet chmv2 d_fine "
        "deepseek_ocr2_sam_vision_model deimv2 depth_anything edgetam edgetam_video efficientloftr "
        "eomt eomt_dinov3 "
        "lightglue lw_detr lw_detr_vit mask2former maskformer maskformer-swin oneformer owlv2 "
        "owlvit pp_doclayout_v2 "
        "pp_doclayout_v3 pp_doclayout_v4 pp_lcnet_v3 pp_lcnet_v4 pp_ocrv5_mobile_det "
        "pp_ocrv5_mobile_rec "
        "pp_ocrv5_server_det pp_ocrv5_server_rec pp_ocrv6_medium_det pp_ocrv6_small_det "
        "pp_ocrv6_small_rec "
        "pp_ocrv6_tiny_rec prompt_depth_anything rf_detr rf_detr_dinov2 rt_detr rt_detr_resnet "
        "rt_detr_v2 sam sam2 "
        "sam2_hiera_det_model sam2_mask_decoder sam2_prompt_encoder sam2_video "
        "sam2_video_mask_decoder "
        "sam2_video_prompt_encoder sam2_vision_model sam3_detr_decoder sam3_detr_encoder "
        "sam3_geometry_encoder "
        "sam3_lite_text sam3_lite_text_detr_decoder sam3_lite_text_detr_encoder "
        "sam3_lite_text_geometry_encoder "
        "sam3_lite_text_mask_decoder sam3_lite_text_text_model sam3_mask_decoder sam3_tracker "
        "sam3_tracker_mask_decoder sam3_tracker_prompt_encoder sam3_tracker_video "
        "sam3_tracker_video_mask_decoder "
        "sam3_tracker_video_prompt_encoder sam3_video sam3_vision_model sam3_vit_model sam_hq "
        "sam_hq_mask_decoder "
        "sam_hq_prompt_encoder sam_hq_vision_model sam_mask_decoder sam_prompt_encoder "
        "sam_vision_model sapiens2 "
        "slanet slanext superglue superpoint tipsv2 tipsv2_dpt unlimited_ocr_sam_vision_model "
        "upernet uvdoc_backbone "
        "videomt vitmatte vitpose vitpose_backbone zoedepth seggpt mgp-str"
    ),
    "its attention is sparse, hashed or not a softmax over all tokens: its rows have no estimand "
    "here": (
        "reformer longformer big_bird nystromformer yoso mra fnet funnel convbert diffllama "
        "deepseek_v32 deepseek_v4 "
        "glm_moe_dsa"
    ),
    "it runs two streams, or shares keys and values between blocks: an entry needs a separate "
    "stream": ("xlnet gemma3n_text gemma4_text gemma4_unified_text llama4_text granitemoe_swa blt"),
    "no entry names the modules of its blocks: attention, feed-forward layer, or the scale of what "
    "they write": (
        "dpr afmoe axk1 axk2 beam bitnet cohere_compass_text cpmant ctrl dbrx doge dory "
        "dots3_note_text glm4_moe_lite "
        "gpt_neox_japanese granitemoe granitemoeshared hy_v4 hyperclovax jetmoe longcat_flash "
        "mimo_v2_flash minicpm3 "
        "modernbert-decoder nemotron xlm xlm-roberta-xl xmod youtu esmc flaubert gte "
        "jina_embeddings_v3 "
        "inkling2_loop_text inkling2_text inkling_text zaya mobilebert neomme nomic_bert "
        "squeezebert data2vec-vision "
        "aimv2_vision_model mistral4 mistral_large4 step3p5 canine esmfold2"
    ),
    (
        "its heads are scaled by a gate or a sink after their attention weights: what they write "
        "is not W_O W_V of "
        "the weights that it hands out"
    ): ("granite_swa laguna"),
    "it reads an image as a row of colours: its positions have no estimand here": ("imagegpt"),
    "its modules pass on quantised numbers with their scale: norms of those have no estimand "
    "here": ("ibert"),
    "its files name or lay out weights otherwise than its modules do: an entry has one of each": (
        "exaone sarvam_moe tipsv2_vision_model cosmos3_omni molmo2 qianfan_ocr"
    ),
    "it leaves out patches at random, so every measurement would be of a different quantity": (
        "vit_mae"
    ),
    "it reads or makes sound: prompts are texts or images, and frames of sound have no position "
    "here": (
        "nemo_speechlm audio-spectrogram-transformer audioflamingo3_encoder bark canary "
        "clap_audio_model cohere_asr "
        "csm dac data2vec-audio dia dots3_note_audio_encoder encodec fastspeech2_conformer "
        "fastspeech2_conformer_hifigan fastspeech2_conformer_with_hifigan fun_asr_nano_encoder "
        "gemma3n_audio "
        "gemma4_audio gemma4_unified_audio glmasr_encoder gradium_phonon_tts granite_speech5_ctc "
        "granite_speech5_encoder granite_speech_encoder granite_speech_plus_encoder "
        "higgs_audio_v2_tokenizer hubert "
        "inkling_audio kyutai_speech_to_text lasr_ctc lasr_encoder mimi mimi_decoder mimi_encoder "
        "moonshine "
        "moonshine_streaming moss_transcribe_diarize_audio muse_spark_audio nemotron3_5_asr "
        "nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_audio nemotron3_diarization "
        "nemotron3_diarization_audio nemotron_asr_streaming nemotron_asr_streaming_encoder "
        "neucodec omniasr_audio "
        "omniasr_ctc parakeet_ctc parakeet_encoder parakeet_rnnt parakeet_tdt pe_audio_encoder "
        "pe_audio_video_encoder "
        "phi4_multimodal_audio pocket_tts pocket_tts_audio_tokenizer "
        "pocket_tts_audio_tokenizer_decoder "
        "pocket_tts_audio_tokenizer_encoder pop2piano qwen2_5_omni qwen2_5_omni_audio_encoder "
        "qwen2_5_omni_bigvgan "
        "qwen2_5_omni_token2wav qwen2_audio_encoder qwen3_asr_encoder qwen3_omni_moe "
        "qwen3_omni_moe_audio_encoder "
        "seamless_m4t seamless_m4t_v2 sew sew-d speech-encoder-decoder speech_to_text speecht5 "
        "speecht5_hifigan "
        "unispeech unispeech-sat univnet vibevoice_acoustic_tokenizer "
        "vibevoice_acoustic_tokenizer_decoder "
        "vibevoice_acoustic_tokenizer_encoder vits voxtral_encoder voxtral_realtime "
        "voxtral_realtime_encoder wav2vec2 "
        "wav2vec2-bert wav2vec2-conformer wavlm wavtokenizer wavtokenizer_encoder xcodec xcodec2 "
        "audioflamingo3 "
        "musicflamingo fun_asr_nano granite_speech granite_speech_plus vibevoice vibevoice_asr "
        "pe_audio "
        "pe_audio_video whisper musicgen musicgen_melody higgs_audio_v2"
    ),
    "it reads series of numbers, states or actions: they are neither tokens nor patches": (
        "autoformer decision_transformer informer patchtsmixer patchtst pi0 "
        "time_series_transformer timesfm timesfm2_5"
    ),
    "it turns images into codes or back: what its blocks pass on is no stream of tokens": (
        "apertus1p5_vision_tokenizer chameleon_vqgan emu3_vqgan glm_image_vqmodel janus_vqgan"
    ),
    "it is the vision tower of a larger model, and no entry describes its blocks": (
        "video_llama_3_vision align_vision_model altclip_vision_model blip_2_vision_model "
        "blip_vision_model "
        "bridgetower_vision_model clipseg_vision_model cohere_compass_vision cosmos3_edge_vision "
        "deepseek_ocr2_vision "
        "dots3_note_vision_encoder edgetam_vision_model ernie4_5_vl_moe_vision exaone4_5_vision "
        "flava_image_model "
        "florence_vision gemma3n_vision gemma4_unified_vision gemma4_vision git_vision_model "
        "glm4v_moe_vision "
        "glm4v_vision glm5_next_vision glm_image_vision glm_ocr_vision got_ocr2_vision "
        "granite4_vision "
        "granite4_vision_text granite_docling_vision groupvit_vision_model hunyuan_vl_vision "
        "hy_v4_vl_vision "
        "idefics2_vision idefics_vision inkling2_vision inkling_vision instructblip_vision_model "
        "internvl_vision "
        "janus_vision_model kimi_k25_vision kosmos_2_5_vision_model kosmos_2_vision_model "
        "lfm3_vl_vision "
        "llama4_vision_model minicpm_ocr_vision minicpmv4_6_vision minicpmv4_7_vision "
        "minimax_m3_vl_vision "
        "mllama_vision_model molmo2_vision muse_glimmer_vision muse_spark_vision ovis2_vision "
        "owlv2_vision_model "
        "owlvit_vision_model paddleocr_vl_vision phi4_multimodal_vision pix2struct_vision_model "
        "pp_chart2table_vision "
        "pp_formulanet_vision qianfan_ocr_vision qwen2_5_omni_vision_encoder qwen2_5_vl_vision "
        "qwen2_vl_vision "
        "qwen3_5_moe_vision qwen3_5_vision qwen3_omni_moe_vision_encoder qwen3_vl_moe_vision "
        "qwen3_vl_vision "
        "qwen4_exp_vision siglip2_vision_model slanext_vision step3p5_vision unlimited_ocr_vision "
        "unlimited_ocr_vision_encoder xclip_vision_model pixtral radio"
    ),
    "it is a part of a larger model, and no entry describes its blocks": (
        "aimv2_text_model align_text_model altclip_text_model blip_text_model "
        "blt_global_transformer "
        "blt_local_decoder blt_local_encoder bridgetower_text_model chinese_clip_text_model "
        "clap_text_model "
        "clipseg_text_model clvp_decoder clvp_encoder cosmos3_edge_text csm_depth_decoder_model "
        "deepseek_ocr2_encoder "
        "deepseek_ocr2_text dia_encoder diffusion_gemma_text embedding_gemma2_text emu3_text_model "
        "ernie4_5_vl_moe_text flava_text_model glm4v_moe_text glm5_next_text glm_image_text "
        "groupvit_text_model "
        "hunyuan_vl_text hy_v4_vl_text kosmos_2_5_text_model kosmos_2_text_model "
        "mistral_large4_text "
        "mllama_text_model moonshine_streaming_encoder muse_glimmer_text muse_spark_text "
        "musicgen_decoder "
        "musicgen_melody_decoder owlv2_text_model owlvit_text_model pix2struct_text_model "
        "qwen2_5_omni_talker "
        "qwen2_5_omni_text qwen3_omni_moe_talker_code_predictor qwen3_omni_moe_talker_text "
        "qwen3_omni_moe_text "
        "siglip2_text_model t5gemma2_decoder t5gemma2_text unlimited_ocr_text "
        "voxtral_realtime_text xclip_text_model "
        "blip_2_qformer blt_patcher edgetam_mask_decoder edgetam_prompt_encoder idefics2_perceiver "
        "idefics_perciever "
        "instructblip_qformer molmo2_adapter moshi_depth t5_gemma_module muse_glimmer_assistant "
        "qwen2_5_omni_dit "
        "vibevoice_diffusion nemotron3_5_transcribe_word_timestamp flava_image_codebook "
        "sapiens2_head molmo2_text "
        "openai_privacy_filter tipsv2_text_model chinese_clip_vision_model idefics3_vision "
        "smolvlm_vision"
    ),
    "it reads words together with their places on a page, or with parts of an image: prompts are "
    "texts alone": ("vilt visual_bert lxmert bros layoutlmv2 layoutlmv3 layoutxlm lilt markuplm"),
}
UNSUPPORTED: dict[str, str] = {
    name: reason for reason, names in _REFUSED.items() for name in names.split()
}
"""Model types that are refused, each with the reason."""


def select_stack_config(model: Config, reads: str) -> Config:
    """The configuration of the stack that reads ``text`` or ``image``; the whole where there is one
    stack."""
    model_type = STACKS.get(str(model.get("model_type")), {}).get(reads)
    nested = model.get(f"{'vision' if reads == 'image' else 'text'}_config")
    if model_type is None:
        return model
    return {**(nested if isinstance(nested, Mapping) else {}), "model_type": model_type}


def select_layer_config(entry: Architecture, config: Config, layer: int) -> Config:
    """The configuration as one block (from 0) has it: of a hierarchical model width and heads are
    those of its stage.

    Raises DataError where the configuration does not state them.
    """
    if not entry.depths:
        return config
    stage, _ = entry.find_stage(layer)
    heads = config.get("num_heads")
    width = config.get("embed_dim")
    if (
        not isinstance(heads, list | tuple)
        or len(heads) != len(entry.depths)
        or not isinstance(width, int)
    ):
        got = f"embed_dim {width!r}, num_heads {heads!r}"
        allowed = "a width, and heads for each of the stages"
        raise DataError(
            "the configuration does not describe its stages",
            where="config.json",
            got=got,
            allowed=allowed,
        )
    of_stage = {
        "hidden_size": width * 2**stage,
        "num_attention_heads": heads[stage],
        "num_heads": heads[stage],
    }
    return {**config, **of_stage, "num_hidden_layers": sum(entry.depths)}


def select_decoder_config(model: Config) -> Config:
    """The part of a configuration that describes the decoder (multi-modal models nest it in
    ``text_config``)."""
    nested = model.get("text_config")
    return nested if isinstance(nested, Mapping) else model


def _is_match(config: Config, conditions: tuple[tuple[str, object], ...]) -> bool:
    return all(config.get(key) == value for key, value in conditions)


def is_eager_wrong(entry: Architecture, config: Config) -> bool:
    """Whether eager attention must not be used for this model (it would apply Falcon's ALiBi
    twice)."""
    return bool(entry.eager_wrong) and _is_match(select_decoder_config(config), entry.eager_wrong)


def _read_depths(config: Config, key: str) -> tuple[int, ...]:
    depths = config.get(key)
    if (
        not isinstance(depths, list | tuple)
        or not depths
        or not all(type(n) is int and 0 < n < 1000 for n in depths)
    ):
        what = f"the configuration's {key} are none"
        allowed = "how many blocks each stage has"
        raise DataError(what, where="config.json", got=repr(depths)[:60], allowed=allowed)
    return tuple(depths)


BOTH_WAYS = {"is_causal": False, "use_bidirectional_attention": True}
"""Configuration values that let a decoder's tokens attend to those behind them, in some classes
only with a mask or only without one."""


def is_direction_open(entry: Architecture, config: Config) -> bool:
    """Whether the direction of attention is not that of the class, but for the model itself to
    say."""
    inner = select_decoder_config(config)
    if entry.alone:
        return True
    return entry.reads == "text" and not entry.causal and bool(inner.get("is_decoder"))


def _apply_config(entry: Architecture, config: Config) -> Architecture:
    """An entry with what a model's configuration says of its stages, and of attention in both
    directions."""
    inner = select_decoder_config(config)
    both = any(inner.get(key) is value for key, value in BOTH_WAYS.items())
    if entry.causal and both:
        entry = replace(entry, alone=True)
    return replace(entry, depths=_read_depths(config, entry.stages)) if entry.stages else entry


def _remove_head(entry: Architecture, config: Config) -> Architecture:
    """The entry of the decoder alone, where the files hold no head for it."""
    if not config.get(HEADLESS) or entry.loader != LLAMA.loader:
        return entry
    return replace(entry, loader="AutoModel", headless=True, outside=(*entry.outside, *OTHER_HEADS))


def _place_tower(tower: Architecture, model_type: str, of_tower: str) -> Architecture:
    """The entry of a text tower where it is a part of a model that reads images or sound too.

    Such a model numbers positions by itself, so prompts are not packed.
    """
    place = TEXT_TOWERS[model_type]
    paths: dict[str, Any] = {}
    for name in ("blocks", "final_norm", "embedding", "behind_norm"):
        if path := getattr(tower, name):
            paths[name] = f"{place}.{path}"
    older = (
        "model" if model_type in ("qwen2_vl", "qwen2_5_vl", "paddleocr_vl") else f"{place}.model"
    )
    return replace(
        tower,
        **paths,
        name=model_type,
        model_type=of_tower,
        prefix="model",
        loader="AutoModelForMultimodalLM",
        unembedding=("lm_head", f"{place}.lm_head"),
        moved=((f"model.{place}", older),),
        towers=(f"model.{place}.", f"{place}.", "model."),
        packs=False,
    )


def _write_settings(settings: Iterable[tuple[str, object]]) -> str:
    """Values of a configuration as an error names them."""
    return ", ".join(f"{key}={value}" for key, value in settings)


def _build_variant_error(
    config: Config, variants: Sequence[Architecture]
) -> UnsupportedArchitectureError:
    """The error for a model type that has entries, none of them for this configuration."""
    wanted = " or ".join(_write_settings(entry.when) for entry in variants)
    keys = dict.fromkeys(key for entry in variants for key, _ in entry.when)
    got = _write_settings((key, config.get(key)) for key in keys)
    what = (
        f"models of type {variants[0].model_type} are measured under other settings alone, neither "
        f"gains nor weights"
    )
    step = "gains from hooks of your own can be joined: thermostats join --help"
    return UnsupportedArchitectureError(
        what, where="config.json", got=got, allowed=wanted, next_step=step
    )


def lookup(config: Config) -> Architecture:
    """The entry for a configuration (a config.json as a mapping).

    Raises UnsupportedArchitectureError for model types known not to fit, UnknownArchitectureError
    for the others.
    """
    stated = str(config.get("model_type") or "")
    by_itself = stated in UNSUPPORTED or any(entry.model_type == stated for entry in ARCHITECTURES)
    model_type = (
        stated if by_itself else str(select_decoder_config(config).get("model_type") or stated)
    )
    if model_type in UNSUPPORTED:
        step = (
            "see `thermostats ls architectures`; gains from hooks of your own can be joined: "
            "thermostats join --help"
        )
        what = f"models of type {model_type} are not measured, neither gains nor weights"
        allowed = "stacks in which every block is attention plus a feed-forward layer"
        raise UnsupportedArchitectureError(
            what, where=UNSUPPORTED[model_type], allowed=allowed, next_step=step
        )
    described = LIKE_TOWERS.get(model_type, model_type)
    variants = [entry for entry in ARCHITECTURES if entry.model_type == described]
    for entry in variants:
        if _is_match(select_decoder_config(config), entry.when):
            tower = _remove_head(_apply_config(entry, config), config)
            return (
                tower
                if by_itself or stated not in TEXT_TOWERS
                else _place_tower(tower, stated, model_type)
            )
    if variants:
        raise _build_variant_error(select_decoder_config(config), variants)
    model_types = sorted({entry.model_type for entry in ARCHITECTURES})
    near = difflib.get_close_matches(model_type, model_types, n=3)
    meant = f" (did you mean {', '.join(near)}?)" if near else ""
    raise UnknownArchitectureError(
        f"unknown architecture{meant}",
        where="model_type of config.json",
        got=repr(model_type),
        allowed="see `thermostats ls architectures`",
        next_step="add an entry to thermostats/measurement/architectures.py: "
        "docs/how-to/architecture.md says how, "
        "and the conformance tests whether it is right",
    )
