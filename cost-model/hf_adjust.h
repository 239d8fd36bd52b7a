#pragma once

#include "cost-model/hf_config.h"

namespace tpplan::detail {

// What single families do that no column of the family table expresses. Each runs after the shapes, biases and experts
// of the row are read and changes the model in place.

void read_latent(HfConfig& config);
void adjust_deepseek_v2(HfConfig& config);
void adjust_deepseek_v3(HfConfig& config);
void adjust_router_bias(HfConfig& config);
void adjust_qwen2_moe(HfConfig& config);
void adjust_gpt_oss(HfConfig& config);
void adjust_llama4(HfConfig& config);
void adjust_gpt2(HfConfig& config);
void adjust_gpt_bigcode(HfConfig& config);
void adjust_gpt_neo(HfConfig& config);
void adjust_opt(HfConfig& config);
void adjust_bloom(HfConfig& config);
void adjust_falcon(HfConfig& config);
void adjust_mpt(HfConfig& config);
void adjust_dbrx(HfConfig& config);
void adjust_qwen(HfConfig& config);
void adjust_chatglm(HfConfig& config);
void adjust_starcoder2(HfConfig& config);
void adjust_phimoe(HfConfig& config);
void adjust_stablelm(HfConfig& config);
void adjust_seed_oss(HfConfig& config);
void adjust_granite_hybrid(HfConfig& config);
void adjust_ernie_moe(HfConfig& config);
void adjust_apertus(HfConfig& config);
void adjust_bailing(HfConfig& config);
void adjust_hunyuan(HfConfig& config);

}  // namespace tpplan::detail
