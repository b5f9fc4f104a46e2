/* The table of presets of random checkpoints. */
#ifndef WR_MODELS_SYNTH_PRESETS_H
#define WR_MODELS_SYNTH_PRESETS_H

typedef struct wr_synth_preset_row {
    const char *name, *about;
    const char *config; /* config.json without quantisation and dtype */
} wr_synth_preset_row;
extern const wr_synth_preset_row wr_synth_presets[]; /* ended by name NULL */

#endif
